-- Closes a breaker by hand; it starts to count afresh. Returns the state before, null where there is none.
CREATE OR REPLACE FUNCTION stampeded_reset_breaker(p_kind text, p_key text) RETURNS text
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    UPDATE stampeded_breakers
       SET state = 'closed', openings = 0, opened_at = NULL, retry_at = NULL, reason = NULL, window_at = NULL, failures = 0,
           successes = 0, updated_at = clock_timestamp()
     WHERE kind = p_kind AND key = p_key
    RETURNING old.state
$$;
