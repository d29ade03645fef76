-- Gives a waiting job another priority: lower runs first. No row for one that isn't waiting.
CREATE OR REPLACE FUNCTION stampeded_set_priority(p_queue text, p_id uuid, p_priority bigint)
RETURNS TABLE (was text, now_state text)
LANGUAGE sql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
    UPDATE stampeded_jobs SET priority = p_priority::smallint
     WHERE queue = p_queue AND id = p_id AND state IN ('available', 'retryable')
    RETURNING old.state, new.state
$$;
