-- Catches up with dependencies that no trigger could see to: the job waited for ended while the one that waits was being
-- enqueued, in a transaction not yet committed; or it was removed. Returns how many it resolved.
CREATE OR REPLACE FUNCTION stampeded_sweep_dependencies(p_limit bigint DEFAULT 10000) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    DELETE FROM stampeded_dependencies d
     WHERE NOT EXISTS (SELECT FROM stampeded_jobs j WHERE j.queue = d.child_queue AND j.id = d.child_id);
    RETURN stampeded_resolve_dependencies(ARRAY(
        SELECT DISTINCT parent_id FROM (
            SELECT d.parent_id FROM stampeded_dependencies d
              LEFT JOIN stampeded_jobs j ON j.queue = d.parent_queue AND j.id = d.parent_id
             WHERE j.id IS NULL OR j.state IN ('completed', 'discarded', 'cancelled')
             LIMIT p_limit) stale));
END $$;
