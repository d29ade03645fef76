-- Rebuilds one queue's counts from its jobs, by appending the difference: transactions that are under way keep their own
-- deltas and stay right, since both reads share one snapshot. One at a time: two that saw the same difference would append it
-- twice.
CREATE OR REPLACE FUNCTION stampeded_recount_queue(p_queue text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('stampeded_recount_queue', 'stampeded_jobs'::regclass::oid::bigint));
    INSERT INTO stampeded_count_deltas (queue, state, n)
    SELECT p_queue, state, sum(n)
      FROM (SELECT state, count(*) AS n FROM stampeded_jobs WHERE queue = p_queue GROUP BY state
            UNION ALL
            SELECT state, -n FROM stampeded_count_deltas WHERE queue = p_queue) both_sides
     GROUP BY state HAVING sum(n) <> 0;
END $$;
