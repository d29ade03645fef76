-- The jobs that a claim may choose from when it must look beyond the first ones of the queue: the heads of each unit (see
-- stampeded_units), p_each of them, and jobs without any key, of which the claim index is read on for p_walk entries from where
-- the last claim left it. In fair shares, the first job of each tenant stands before the second of any, and tenants follow one
-- another from the one after the last one served; otherwise in claim order.
CREATE OR REPLACE FUNCTION stampeded_candidates(p_queue text, p_now timestamptz, p_fair boolean, p_units jsonb, p_each bigint,
                                                p_turn stampeded_turns, p_walk bigint, p_skip uuid[])
RETURNS TABLE (id uuid, tenant text, destination text, limit_key text, priority smallint, scheduled_at timestamptz)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH unit AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(p_units) AS u (tenant text, grp bigint, priority smallint, room bigint, may boolean)
         WHERE u.may
    ), found AS (
        SELECT w.*
          FROM unit u CROSS JOIN LATERAL (
               SELECT j.id, j.tenant_id, j.destination, j.limit_key, j.priority, j.scheduled_at, j.attempt < j.max_attempts AS may,
                      coalesce(tenant_id, '') AS t,
                      hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)) AS g
                 FROM stampeded_jobs j
                WHERE queue = p_queue AND state IN ('available', 'retryable')
                  AND num_nonnulls(tenant_id, destination, limit_key) > 0
                  AND (coalesce(tenant_id, ''), hashtextextended(coalesce(destination, ''),
                       hashtextextended(coalesce(limit_key, ''), 0)), j.priority) >= (u.tenant, u.grp, u.priority)
                ORDER BY coalesce(tenant_id, ''),
                         hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)),
                         j.priority, j.scheduled_at, j.id
                LIMIT least(u.room, p_each)) w
         -- What follows the unit is cut off here and not in there, where it would let the planner read another index.
         WHERE w.t = u.tenant AND w.g = u.grp AND w.priority = u.priority AND w.scheduled_at <= p_now AND w.may
        UNION ALL
        SELECT w.*, '', NULL FROM (
               SELECT j.id, j.tenant_id, j.destination, j.limit_key, j.priority, j.scheduled_at, j.attempt < j.max_attempts AS may
                 FROM stampeded_jobs j
                WHERE queue = p_queue AND state IN ('available', 'retryable') AND scheduled_at <= p_now
                  AND (p_turn.walked IS NULL
                       OR (j.priority, j.scheduled_at, j.id) > (p_turn.walked, p_turn.walked_at, p_turn.walked_id))
                ORDER BY j.priority, j.scheduled_at, j.id
                LIMIT p_walk) w
         WHERE num_nonnulls(w.tenant_id, w.destination, w.limit_key) = 0 AND w.may
    )
    SELECT f.id, f.tenant_id, f.destination, f.limit_key, f.priority, f.scheduled_at FROM found f
     WHERE f.id <> ALL (p_skip)
     ORDER BY CASE WHEN p_fair THEN row_number() OVER (PARTITION BY f.t ORDER BY f.priority, f.scheduled_at, f.id) END,
              CASE WHEN p_fair THEN f.t <= p_turn.tenant END,
              CASE WHEN p_fair THEN f.t END,
              f.priority, f.scheduled_at, f.id;
END $$;
