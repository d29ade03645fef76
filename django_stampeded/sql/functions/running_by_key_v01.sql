-- The running jobs of a queue by tenant, destination and limit_key, as {"scope:value": n}.
CREATE OR REPLACE FUNCTION stampeded_running_by_key(p_queue text) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT coalesce(jsonb_object_agg(scope || ':' || value, n), '{}')
      FROM (SELECT k.scope, k.value, count(*) AS n
              FROM stampeded_jobs j,
                   LATERAL (VALUES ('tenant', j.tenant_id), ('destination', j.destination), ('key', j.limit_key)) k (scope, value)
             WHERE j.queue = p_queue AND j.state IN ('claimed', 'executing') AND k.value IS NOT NULL
             GROUP BY k.scope, k.value) running
$$;
