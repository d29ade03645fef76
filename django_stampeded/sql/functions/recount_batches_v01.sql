-- Rebuilds the counts of the open batches from their jobs, by appending the difference, as stampeded_recount_queue() does.
CREATE OR REPLACE FUNCTION stampeded_recount_batches() RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('stampeded_recount_batches', 'stampeded_jobs'::regclass::oid::bigint));
    INSERT INTO stampeded_batch_deltas (batch_id, state, n)
    SELECT batch_id, state, sum(n)
      FROM (SELECT batch_id, state, count(*) AS n FROM stampeded_jobs WHERE batch_id IS NOT NULL GROUP BY batch_id, state
            UNION ALL
            SELECT batch_id, state, -n FROM stampeded_batch_deltas) both_sides
     WHERE batch_id IN (SELECT id FROM stampeded_batches WHERE finished_at IS NULL)
     GROUP BY batch_id, state HAVING sum(n) <> 0;
END $$;
