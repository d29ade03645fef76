-- What the planner judges: how long the oldest due job of each queue has waited whose policy says how long its jobs may.
-- Without such a policy, and without a verdict that is to be taken back, this is a look at a small table. A breaker that could
-- have had probes for a minute and got none has no jobs any more, so it keeps nobody from any.
CREATE OR REPLACE FUNCTION stampeded_plan_figures()
RETURNS TABLE (queue text, max_wait_secs integer, waited float8, verdict text, blocked boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT p.queue, p.max_wait_secs,
           CASE WHEN d.due <= clock_timestamp() THEN extract(epoch FROM clock_timestamp() - d.due)::float8 END,
           CASE WHEN p.decided_at > clock_timestamp() - interval '30 seconds' THEN p.verdict ELSE 'steady' END,
           stampeded_blocked_until(p.queue) IS NOT NULL
           OR EXISTS (SELECT FROM stampeded_breakers b
                       WHERE b.state <> 'closed' AND p.queue = ANY (b.queues)
                         AND (b.retry_at IS NULL OR b.retry_at > clock_timestamp() - interval '1 minute'))
           OR p.max_running <= (SELECT count(*) FROM stampeded_jobs j
                                 WHERE j.queue = p.queue AND j.state IN ('claimed', 'executing'))
      FROM stampeded_queue_policies p, LATERAL (SELECT stampeded_next_due(p.queue, false) AS due OFFSET 0) d
     WHERE p.max_wait_secs IS NOT NULL OR p.verdict <> 'steady'
$$;
