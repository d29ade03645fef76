-- Catches up with dependencies that no trigger could see to: the job waited for ended while the one that waits was being
-- enqueued, in a transaction not yet committed; or there were too many at once; or a lock was in the way. p_all false looks only
-- at the last kind, which is cheap. Returns how many jobs it told.
CREATE OR REPLACE FUNCTION stampeded_sweep_dependencies(p_limit bigint DEFAULT 10000, p_all boolean DEFAULT true) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_told integer := 0;
BEGIN
    IF EXISTS (SELECT FROM stampeded_dependencies WHERE missed) THEN
        v_told := stampeded_resolve_dependencies(
            ARRAY(SELECT DISTINCT parent_id FROM stampeded_dependencies WHERE missed LIMIT p_limit), p_limit);
    END IF;
    IF p_all THEN
        DELETE FROM stampeded_dependencies d
         WHERE NOT EXISTS (SELECT FROM stampeded_jobs j
                            WHERE j.queue = d.child_queue AND j.id = d.child_id AND j.scheduled_at = stampeded_waits_until()
                              AND j.state IN ('available', 'retryable'));
        v_told := v_told + stampeded_resolve_dependencies(ARRAY(
            SELECT DISTINCT parent_id FROM (
                SELECT d.parent_id FROM stampeded_dependencies d
                  LEFT JOIN stampeded_jobs j ON j.queue = d.parent_queue AND j.id = d.parent_id
                 WHERE j.id IS NULL OR j.state IN ('completed', 'discarded', 'cancelled')
                 LIMIT p_limit) stale), p_limit);
    END IF;
    RETURN v_told;
END $$;
