-- Deletes up to p_limit entries of the ledger of starts that no window of a rate limit reaches any more; returns how many. Claims
-- clear away as much as they write; this is for what is left when a limit has gone or its keys have no jobs any more.
CREATE OR REPLACE FUNCTION stampeded_prune_starts(p_limit bigint DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_before timestamptz := clock_timestamp();      -- beforehand, for the index
    v_pruned bigint;
BEGIN
    DELETE FROM stampeded_starts WHERE (queue, scope, value, started_at) IN (
        SELECT queue, scope, value, started_at FROM stampeded_starts WHERE expires_at < v_before
         ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_pruned = ROW_COUNT;
    RETURN v_pruned;
END $$;
