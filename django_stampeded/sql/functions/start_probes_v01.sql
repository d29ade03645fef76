-- Takes down which breakers have got probes by a claim, p_rooms being what it was allowed (stampeded_breaker_rooms). Until
-- their outcome is reported there are no others, unless none comes for a whole wait: then their worker may have died.
CREATE OR REPLACE FUNCTION stampeded_start_probes(p_queue text, p_worker_id uuid, p_since timestamptz, p_rooms jsonb) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH started AS MATERIALIZED (
        SELECT DISTINCT destination FROM stampeded_jobs
         WHERE queue = p_queue AND claimed_by = p_worker_id AND state IN ('claimed', 'executing') AND claimed_at >= p_since
           AND destination IS NOT NULL
    )
    UPDATE stampeded_breakers b
       SET state = 'half_open', successes = CASE WHEN b.state = 'open' THEN 0 ELSE b.successes END,
           retry_at = clock_timestamp() + interval '1 second' * b.wait_secs, updated_at = clock_timestamp()
      FROM started
     WHERE b.kind = 'destination' AND b.key = started.destination AND b.state <> 'closed'
       AND (p_rooms ->> ('breaker:' || b.key))::bigint > 0
$$;
