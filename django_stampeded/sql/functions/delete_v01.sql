-- Deletes a job that isn't executing, and says in which state it was; null for an executing or unknown one.
CREATE OR REPLACE FUNCTION stampeded_delete(p_queue text, p_id uuid) RETURNS text
LANGUAGE sql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
    WITH gone AS (
        DELETE FROM stampeded_jobs WHERE queue = p_queue AND id = p_id AND state NOT IN ('claimed', 'executing') RETURNING state
    ), told AS (
        DELETE FROM stampeded_progress WHERE job_id = p_id AND EXISTS (SELECT FROM gone)
    )
    SELECT state FROM gone
$$;
