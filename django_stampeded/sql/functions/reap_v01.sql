-- Takes back the jobs of workers whose heartbeat stopped, by the rules of every failure. A job whose worker has no row is
-- dead by its own last sign of life. Each job is settled by itself, as in stampeded_expire(). Rows of dead workers stay a day,
-- so that one that was only cut off can beat again, and then go.
CREATE OR REPLACE FUNCTION stampeded_reap(p_dead_after interval DEFAULT '5 minutes')
RETURNS TABLE (id uuid, queue text, worker_id uuid)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_job    stampeded_jobs;
    v_before timestamptz := clock_timestamp() - coalesce(p_dead_after, interval '5 minutes');
BEGIN
    FOR v_job IN
        SELECT j.* FROM stampeded_jobs j
         WHERE j.state IN ('claimed', 'executing')
           AND coalesce((SELECT w.last_heartbeat FROM stampeded_workers w WHERE w.id = j.claimed_by),
                        stampeded_last_sign(j)) < v_before
           FOR UPDATE OF j SKIP LOCKED
    LOOP
        BEGIN
            PERFORM stampeded_apply_failure(v_job, 'worker_missing',
                format('worker %s stopped beating', coalesce(v_job.claimed_by::text, '(none on record)')), NULL, NULL);
            id := v_job.id; queue := v_job.queue; worker_id := v_job.claimed_by;
            RETURN NEXT;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'job % could not be taken back and stays as it is: %', v_job.id, SQLERRM;
        END;
    END LOOP;
    DELETE FROM stampeded_workers w WHERE w.last_heartbeat < least(v_before, clock_timestamp() - interval '1 day');
END $$;
