-- Takes down which breakers have got probes by a claim, p_rooms being what it was allowed (stampeded_breaker_rooms). Until
-- their outcome is reported there are no others, unless none comes for a whole wait: then their worker may have died.
CREATE OR REPLACE FUNCTION stampeded_start_probes(p_queue text, p_worker_id uuid, p_since timestamptz, p_rooms jsonb) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    UPDATE stampeded_breakers b
       SET state = 'half_open', successes = CASE WHEN b.state = 'open' THEN 0 ELSE b.successes END,
           retry_at = clock_timestamp() + interval '1 second' * b.wait_secs, updated_at = clock_timestamp()
     WHERE b.kind = 'destination' AND b.state <> 'closed' AND (p_rooms ->> ('breaker:' || b.key))::bigint > 0
       AND EXISTS (SELECT FROM stampeded_jobs j
                    WHERE j.queue = p_queue AND j.claimed_by = p_worker_id AND j.state IN ('claimed', 'executing')
                      AND j.claimed_at >= p_since AND j.destination = b.key)
$$;
