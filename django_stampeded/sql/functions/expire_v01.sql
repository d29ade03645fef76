-- Fails as timed_out the executing jobs that gave no sign of life for their expire_seconds. Each job is settled by itself:
-- one that can't be is left with a warning and stops no other.
CREATE OR REPLACE FUNCTION stampeded_expire(p_limit bigint DEFAULT 100)
RETURNS TABLE (out_id uuid, out_queue text, out_worker uuid)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
AS $$
DECLARE
    v_job stampeded_jobs;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR v_job IN
        SELECT * FROM stampeded_jobs j
         WHERE state IN ('claimed', 'executing')
           AND stampeded_last_sign(j) + make_interval(secs => expire_seconds) < clock_timestamp()
         LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        BEGIN
            PERFORM stampeded_apply_failure(v_job, 'timed_out',
                format('no sign of life for more than %s s', v_job.expire_seconds), NULL, NULL);
            out_id := v_job.id; out_queue := v_job.queue; out_worker := v_job.claimed_by;
            RETURN NEXT;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'job % could not be expired and stays as it is: %', v_job.id, SQLERRM;
        END;
    END LOOP;
END $$;
