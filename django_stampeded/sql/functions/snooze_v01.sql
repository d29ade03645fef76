-- Puts a job off at its own wish: the attempt is given back and nothing is recorded. True for the owner of that attempt,
-- false (and no change) for anybody else. The delay is clamped to 0 … 10 years.
CREATE OR REPLACE FUNCTION stampeded_snooze(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint, p_delay_ms bigint)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_delay_ms bigint := least(greatest(coalesce(p_delay_ms, 0), 0), 315360000000);
BEGIN
    UPDATE stampeded_jobs
       SET state = CASE WHEN errors = '[]' THEN 'available' ELSE 'retryable' END,
           attempt = greatest(attempt - 1, 0), claimed_by = NULL, claimed_at = NULL, heartbeat_at = NULL,
           scheduled_at = clock_timestamp() + v_delay_ms * interval '1 millisecond'
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_delay_ms = 0 THEN
        PERFORM stampeded_notify_due(p_queue);
    END IF;
    RETURN true;
END $$;
