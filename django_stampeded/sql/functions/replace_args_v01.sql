-- Gives a job that isn't executing other arguments. Whether its task takes them is for the caller to check. The dedup scope
-- stays, also one that was made from the arguments: it is the slot that the job holds. No row for an executing or unknown job.
CREATE OR REPLACE FUNCTION stampeded_replace_args(p_queue text, p_id uuid, p_args jsonb)
RETURNS TABLE (was text, now_state text)
LANGUAGE sql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
    UPDATE stampeded_jobs SET args = p_args
     WHERE queue = p_queue AND id = p_id AND state NOT IN ('claimed', 'executing')
    RETURNING old.state, new.state
$$;
