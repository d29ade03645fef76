-- Deletes results that have expired, and batches that ended so long ago with their counts; returns how many of both.
CREATE OR REPLACE FUNCTION stampeded_prune_results(p_batches_older_than interval DEFAULT '30 days') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_results integer;
    v_batches integer;
BEGIN
    DELETE FROM stampeded_results WHERE expires_at < clock_timestamp();
    GET DIAGNOSTICS v_results = ROW_COUNT;
    WITH gone AS (
        DELETE FROM stampeded_batches b WHERE b.finished_at < clock_timestamp() - p_batches_older_than
           AND NOT EXISTS (SELECT FROM stampeded_batches p WHERE p.id = b.parent_id AND p.finished_at IS NULL)
        RETURNING b.id
    ), counts AS (
        DELETE FROM stampeded_batch_deltas d USING gone WHERE d.batch_id = gone.id
    )
    SELECT count(*) INTO v_batches FROM gone;
    RETURN v_results + v_batches;
END $$;
