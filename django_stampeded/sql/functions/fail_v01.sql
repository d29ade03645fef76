-- Reports a failure of the attempt that a worker owns; no row and no change for anybody else. The lock is taken before
-- anything is decided, so of two reports of one attempt the second finds the job no longer executing.
CREATE OR REPLACE FUNCTION stampeded_fail(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint, p_kind text, p_error text,
                                          p_retry_delay_ms bigint DEFAULT NULL, p_exit_status bigint DEFAULT NULL)
RETURNS TABLE (was text, now_state text, dead_lettered boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_job stampeded_jobs;
BEGIN
    IF p_kind IS NULL OR p_kind NOT IN ('raised', 'timed_out', 'heartbeat_lost', 'worker_exited', 'worker_missing',
                                        'breaker_open', 'throttled', 'cancelled', 'unrecoverable') THEN
        RAISE EXCEPTION 'p_kind must be one of raised, timed_out, heartbeat_lost, worker_exited, worker_missing, breaker_open, '
            'throttled, cancelled, unrecoverable, not %', coalesce(quote_literal(p_kind), 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO v_job FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END
       FOR UPDATE;
    IF FOUND THEN
        RETURN QUERY SELECT * FROM stampeded_apply_failure(v_job, p_kind, p_error, p_retry_delay_ms, p_exit_status);
    END IF;
END $$;
