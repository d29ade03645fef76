-- Completes a job for the owner of that very attempt. For anybody else, and for a job that is no longer executing, there is
-- no row and no change. Where the job is unique within a period, it keeps its slot until the period's bucket ends.
CREATE OR REPLACE FUNCTION stampeded_complete(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint)
RETURNS TABLE (was text, now_state text, owned boolean)
LANGUAGE sql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
    UPDATE stampeded_jobs
       SET state = 'completed', finished_at = clock_timestamp(), checkpoint = NULL, claimed_by = NULL,
           dedup_scope = CASE WHEN dedup_period IS NOT NULL THEN dedup_scope END
     WHERE queue = p_queue AND id = p_id AND claimed_by = p_worker_id AND attempt = p_attempt
       AND state IN ('claimed', 'executing')
    RETURNING old.state, new.state, true
$$;
