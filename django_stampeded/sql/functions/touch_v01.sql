-- The job's own heartbeat. False tells the worker that the job is no longer its own.
CREATE OR REPLACE FUNCTION stampeded_touch(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    UPDATE stampeded_jobs SET heartbeat_at = clock_timestamp()
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END;
    RETURN FOUND;
END $$;
