-- Completes a job for the owner of that very attempt. For anybody else, and for a job that is no longer executing, there is
-- no row and no change. Where the job is unique within a period, it keeps its slot until the period's bucket ends.
--
-- Owner and state are told in a form that no index serves, here as by whoever else asks for one attempt: the row is then looked
-- up by its key, and not among all the jobs that the worker runs or ran since the last vacuum.
CREATE OR REPLACE FUNCTION stampeded_complete(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint)
RETURNS TABLE (was text, now_state text, owned boolean)
LANGUAGE sql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
    UPDATE stampeded_jobs
       SET state = 'completed', finished_at = clock_timestamp(), checkpoint = NULL, claimed_by = NULL,
           dedup_scope = CASE WHEN dedup_period IS NOT NULL THEN dedup_scope END
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END
    RETURNING old.state, new.state, true
$$;
