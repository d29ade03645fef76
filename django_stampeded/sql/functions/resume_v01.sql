-- Lets a paused queue be claimed from again; queue '*': ends the pause of all, each one's own stays.
CREATE OR REPLACE FUNCTION stampeded_resume(p_queue text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE stampeded_queue_policies SET paused_at = NULL, paused_reason = NULL, paused_until = NULL
     WHERE queue = p_queue AND paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    ELSIF p_queue = '*' THEN
        PERFORM stampeded_notify_due(q) FROM stampeded_queues_with_work() q;
    ELSE
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
