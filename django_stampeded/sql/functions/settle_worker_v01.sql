-- Settles the jobs of a worker whose process has ended, as its supervisor saw: those that it had really started fail as
-- worker_exited with the exit status, those that were only claimed are handed back uncharged; then the worker goes off the
-- list. Waits for rows that the dead process's sessions still hold, so call it with a lock_timeout and again.
CREATE OR REPLACE FUNCTION stampeded_settle_worker(p_worker_id uuid, p_started uuid[], p_error text, p_exit_status bigint)
RETURNS TABLE (id uuid, queue text, now_state text, started boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_job stampeded_jobs;
BEGIN
    FOR v_job IN
        SELECT j.* FROM stampeded_jobs j
         WHERE j.claimed_by = p_worker_id AND j.state IN ('claimed', 'executing')
         ORDER BY j.id FOR UPDATE
    LOOP
        id := v_job.id;
        queue := v_job.queue;
        started := v_job.id = ANY (p_started);
        IF started THEN
            SELECT f.now_state INTO now_state
              FROM stampeded_apply_failure(v_job, 'worker_exited', p_error, NULL, p_exit_status) f;
        ELSE
            SELECT r.now_state INTO now_state
              FROM stampeded_release(v_job.queue, v_job.id, p_worker_id, v_job.attempt) r;
        END IF;
        RETURN NEXT;
    END LOOP;
    DELETE FROM stampeded_workers w WHERE w.id = p_worker_id;
END $$;
