-- Lets a paused queue be claimed from again.
CREATE OR REPLACE FUNCTION stampeded_resume(p_queue text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE stampeded_queue_policies SET paused_at = NULL, paused_reason = NULL
     WHERE queue = p_queue AND paused_at IS NOT NULL;
    IF FOUND THEN
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
