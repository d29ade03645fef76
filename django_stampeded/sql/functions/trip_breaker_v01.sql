-- Opens a breaker by hand: until p_until, when probes decide, or until it is reset where that is null. Returns the state before.
CREATE OR REPLACE FUNCTION stampeded_trip_breaker(p_kind text, p_key text, p_reason text DEFAULT NULL,
                                                  p_until timestamptz DEFAULT NULL) RETURNS text
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO stampeded_breakers AS b (kind, key, state, openings, opened_at, retry_at, reason)
    VALUES (p_kind, p_key, 'open', 1, clock_timestamp(), p_until, p_reason)
    ON CONFLICT (kind, key) DO UPDATE
       SET state = 'open', openings = greatest(b.openings, 1), opened_at = coalesce(b.opened_at, excluded.opened_at),
           retry_at = excluded.retry_at, reason = excluded.reason, queues = NULL, window_at = NULL, failures = 0, successes = 0,
           updated_at = clock_timestamp()
    RETURNING coalesce(old.state, 'closed')
$$;
