-- Gives a job up that isn't final, an executing one too, with its dead letter as for every discarded job. No row for a job
-- that is final or unknown.
CREATE OR REPLACE FUNCTION stampeded_discard(p_queue text, p_id uuid, p_reason text DEFAULT NULL)
RETURNS TABLE (was text, now_state text, dead_lettered boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_job stampeded_jobs;
BEGIN
    SELECT * INTO v_job FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND state NOT IN ('completed', 'discarded', 'cancelled')
       FOR UPDATE;
    IF FOUND THEN
        RETURN QUERY SELECT * FROM stampeded_apply_failure(v_job, 'unrecoverable', coalesce(p_reason, 'discarded'), NULL, NULL);
    END IF;
END $$;
