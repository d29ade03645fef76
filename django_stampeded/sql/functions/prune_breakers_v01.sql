-- Deletes the breakers that have been closed without a failure for so long: destinations come and go. Returns how many.
CREATE OR REPLACE FUNCTION stampeded_prune_breakers(p_older_than interval DEFAULT '30 days') RETURNS bigint
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH gone AS (
        DELETE FROM stampeded_breakers WHERE state = 'closed' AND updated_at < clock_timestamp() - p_older_than RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
