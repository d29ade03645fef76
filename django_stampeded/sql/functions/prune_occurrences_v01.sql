-- Deletes old entries of the ledger of fired occurrences; returns how many.
CREATE OR REPLACE FUNCTION stampeded_prune_occurrences(p_older_than interval DEFAULT '30 days') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - p_older_than;      -- beforehand, for the index: see stampeded_prune()
    v_pruned integer;
BEGIN
    DELETE FROM stampeded_cron_occurrences WHERE enqueued_at < v_before;
    GET DIAGNOSTICS v_pruned = ROW_COUNT;
    RETURN v_pruned;
END $$;
