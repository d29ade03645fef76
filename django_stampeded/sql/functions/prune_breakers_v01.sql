-- Deletes the breakers that have been closed without a failure for so long, and those that are not closed and have had no probe
-- to start for so long: destinations come and go, and claims look at each one that isn't closed. One that waits for somebody to
-- reset it stays. Returns how many.
CREATE OR REPLACE FUNCTION stampeded_prune_breakers(p_older_than interval DEFAULT '30 days') RETURNS bigint
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH gone AS (
        DELETE FROM stampeded_breakers
         WHERE updated_at < clock_timestamp() - p_older_than
           AND (state = 'closed' OR retry_at < clock_timestamp() - p_older_than)
        RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
