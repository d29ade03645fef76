-- How many jobs of each destination whose breaker isn't closed may be claimed from a queue now, as {"breaker:destination": n}:
-- the probes where it is time for some, else none; after one that has succeeded a single one, for others may still run. Those
-- that get some are locked until the claim commits, so that of all claims of all queues one has them; to the others it looks as
-- if it weren't time.
CREATE OR REPLACE FUNCTION stampeded_breaker_rooms(p_queue text) RETURNS jsonb
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH due AS MATERIALIZED (
        SELECT key, CASE WHEN state = 'half_open' AND successes > 0 THEN 1 ELSE probes END AS probes FROM stampeded_breakers
         WHERE state <> 'closed' AND kind = 'destination' AND retry_at <= clock_timestamp()
           AND (queues IS NULL OR p_queue = ANY (queues))
           FOR UPDATE SKIP LOCKED
    )
    -- No join of the two, which would be a loop in a loop: a claim runs with the other ways of joining disabled.
    SELECT jsonb_object_agg('breaker:' || b.key, 0) || coalesce((SELECT jsonb_object_agg('breaker:' || key, probes) FROM due), '{}')
      FROM stampeded_breakers b
     WHERE b.state <> 'closed' AND b.kind = 'destination' AND (b.queues IS NULL OR p_queue = ANY (b.queues))
$$;
