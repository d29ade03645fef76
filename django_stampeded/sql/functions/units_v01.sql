-- The next p_most units of a queue with a due job and room for it. A unit is what the jobs of one tenant, destination,
-- limit_key and priority are together: all of them may start or none. Read by hopping over the index from the head of one unit
-- to the head of the next, so what a unit holds costs nothing. After 1,000 hops it stops, and the last row says where; it may
-- then be a unit from which no job may start (`may` false).
CREATE OR REPLACE FUNCTION stampeded_units(p_queue text, p_now timestamptz, p_tenant text, p_grp bigint, p_most bigint,
                                           p_running jsonb)
RETURNS TABLE (tenant text, grp bigint, priority smallint, room bigint, may boolean)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE hop AS (
        (SELECT 1 AS n, coalesce(tenant_id, '') AS t,
                hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)) AS g,
                j.priority AS p, scheduled_at, tenant_id, destination, limit_key
           FROM stampeded_jobs j
          WHERE queue = p_queue AND state IN ('available', 'retryable') AND num_nonnulls(tenant_id, destination, limit_key) > 0
            AND (p_tenant IS NULL OR (coalesce(tenant_id, ''), hashtextextended(coalesce(destination, ''),
                 hashtextextended(coalesce(limit_key, ''), 0))) > (p_tenant, p_grp))
          ORDER BY coalesce(tenant_id, ''),
                   hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)),
                   j.priority, scheduled_at, id
          LIMIT 1)
        UNION ALL
        SELECT next.* FROM hop, LATERAL (
            SELECT hop.n + 1, coalesce(tenant_id, ''),
                   hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)),
                   j.priority, scheduled_at, tenant_id, destination, limit_key
              FROM stampeded_jobs j
             WHERE queue = p_queue AND state IN ('available', 'retryable')
               AND num_nonnulls(tenant_id, destination, limit_key) > 0
               AND (coalesce(tenant_id, ''), hashtextextended(coalesce(destination, ''),
                    hashtextextended(coalesce(limit_key, ''), 0)), j.priority) > (hop.t, hop.g, hop.p)
             ORDER BY coalesce(tenant_id, ''),
                      hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)),
                      j.priority, scheduled_at, id
             LIMIT 1) next
         WHERE hop.n < 1000
    )
    SELECT hop.t, hop.g, hop.p, r.room, hop.scheduled_at <= p_now AND coalesce(r.room > 0, true)
      FROM hop LEFT JOIN LATERAL (
           SELECT least(stampeded_key_room(p_queue, 'tenant', hop.tenant_id, p_running),
                        stampeded_key_room(p_queue, 'destination', hop.destination, p_running),
                        stampeded_key_room(p_queue, 'key', hop.limit_key, p_running)) AS room
            WHERE hop.scheduled_at <= p_now OFFSET 0) r ON true
     WHERE hop.scheduled_at <= p_now AND coalesce(r.room > 0, true) OR hop.n = 1000
     LIMIT p_most;
END $$;
