-- Takes down what a claim has started, for the rate limits of its queue, and clears away what no window reaches any more. The
-- moment is later than each job's claimed_at, and later than the entry before even if the clock was set back.
CREATE OR REPLACE FUNCTION stampeded_record_starts(p_policy stampeded_queue_policies, p_worker_id uuid, p_since timestamptz,
                                                   p_number bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_keyed boolean := EXISTS (SELECT FROM stampeded_limits WHERE queue = p_policy.queue AND rate_limit IS NOT NULL);
BEGIN
    IF p_number = 0 OR p_policy.rate_limit IS NULL AND NOT v_keyed THEN
        RETURN;
    END IF;
    WITH started AS (
        SELECT 'queue' AS scope, '' AS value, p_number AS n, p_policy.rate_period_secs AS period
         WHERE p_policy.rate_limit IS NOT NULL
        UNION ALL
        SELECT k.scope, k.value, count(*), lim.rate_period_secs
          FROM stampeded_jobs j,
               LATERAL (VALUES ('tenant', j.tenant_id), ('destination', j.destination), ('key', j.limit_key)) k (scope, value),
               LATERAL (SELECT l.rate_period_secs FROM stampeded_limits l
                         WHERE l.queue = p_policy.queue AND l.scope = k.scope AND (l.value = k.value OR l.value IS NULL)
                         ORDER BY l.value LIMIT 1) lim
         WHERE v_keyed AND j.queue = p_policy.queue AND j.claimed_by = p_worker_id AND j.state IN ('claimed', 'executing')
           AND j.claimed_at >= p_since AND k.value IS NOT NULL AND lim.rate_period_secs IS NOT NULL
         GROUP BY k.scope, k.value, lim.rate_period_secs
    )
    INSERT INTO stampeded_starts (queue, scope, value, started_at, n, total, expires_at)
    SELECT p_policy.queue, started.scope, started.value, moment.at, started.n, coalesce(last.total, 0) + started.n,
           moment.at + (started.period + 1) * interval '1 second'
      FROM started
      LEFT JOIN LATERAL (SELECT s.started_at, s.total FROM stampeded_starts s
                          WHERE s.queue = p_policy.queue AND s.scope = started.scope AND s.value = started.value
                          ORDER BY s.started_at DESC LIMIT 1) last ON true,
           LATERAL (SELECT greatest(clock_timestamp(), last.started_at + interval '1 microsecond') AS at) moment;
    DELETE FROM stampeded_starts WHERE (queue, scope, value, started_at) IN (
        SELECT queue, scope, value, started_at FROM stampeded_starts WHERE expires_at < p_since
         ORDER BY expires_at LIMIT 2 * p_number + 100 FOR UPDATE SKIP LOCKED);
END $$;
