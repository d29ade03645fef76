-- Deletes results that have expired, and batches that ended so long ago, at most p_limit of each; returns how many of both. A
-- batch within another stays for as long as that one is open.
CREATE OR REPLACE FUNCTION stampeded_prune_results(p_batches_older_than interval DEFAULT '30 days', p_limit bigint DEFAULT 10000)
RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_results integer;
    v_batches integer;
BEGIN
    DELETE FROM stampeded_results WHERE job_id IN (
        SELECT job_id FROM stampeded_results WHERE expires_at < clock_timestamp()
         ORDER BY expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_results = ROW_COUNT;
    DELETE FROM stampeded_batches WHERE id IN (
        SELECT b.id FROM stampeded_batches b
         WHERE b.finished_at < clock_timestamp() - p_batches_older_than
           AND NOT EXISTS (SELECT FROM stampeded_batches p WHERE p.id = b.parent_id AND p.finished_at IS NULL)
         ORDER BY b.finished_at LIMIT p_limit FOR UPDATE OF b SKIP LOCKED);
    GET DIAGNOSTICS v_batches = ROW_COUNT;
    RETURN v_results + v_batches;
END $$;
