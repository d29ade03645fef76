-- Undoes a claim that never started: the attempt is given back and nothing is recorded.
CREATE OR REPLACE FUNCTION stampeded_release(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint)
RETURNS TABLE (was text, now_state text, owned boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    UPDATE stampeded_jobs j
       SET state = CASE WHEN j.errors = '[]' THEN 'available' ELSE 'retryable' END,
           attempt = greatest(j.attempt - 1, 0), claimed_by = NULL, claimed_at = NULL, heartbeat_at = NULL
     WHERE j.queue = p_queue AND j.id = p_id AND j.attempt = p_attempt
       AND CASE WHEN j.state IN ('claimed', 'executing') THEN j.claimed_by = p_worker_id END
    RETURNING old.state, new.state, true;
    IF FOUND THEN
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
