-- Makes a waiting job due now, whatever it was waiting for. No row for one that isn't waiting.
CREATE OR REPLACE FUNCTION stampeded_run_now(p_queue text, p_id uuid) RETURNS TABLE (was text, now_state text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    UPDATE stampeded_jobs j SET scheduled_at = least(j.scheduled_at, clock_timestamp())
     WHERE j.queue = p_queue AND j.id = p_id AND j.state IN ('available', 'retryable')
    RETURNING old.state, new.state;
    IF FOUND THEN
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
