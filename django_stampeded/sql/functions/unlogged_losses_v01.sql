-- What a crash of the server has made wrong in the counts: it empties unlogged partitions, whose jobs were counted in a table
-- that it doesn't empty. The unlogged sequence stampeded_since_crash tells: a crash sets it back to where it was never used.
-- From then until stampeded_fold_counts() has written these differences down, the counts' view adds them at each look; it
-- reads in the caller's snapshot, so that the sum is exact at any moment.
CREATE OR REPLACE FUNCTION stampeded_unlogged_losses() RETURNS TABLE (queue text, state text, n bigint)
LANGUAGE plpgsql STABLE ROWS 1
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queue text;
BEGIN
    IF pg_sequence_last_value('stampeded_since_crash'::regclass) IS NOT NULL OR pg_is_in_recovery() THEN
        RETURN;
    END IF;
    FOR v_queue IN
        SELECT unnest(stampeded_partition_queues(c.oid))
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'stampeded_jobs'::regclass AND c.relpersistence = 'u'
    LOOP
        RETURN QUERY
        SELECT v_queue, both_sides.state, sum(both_sides.n)::bigint
          FROM (SELECT j.state, count(*) AS n FROM stampeded_jobs j WHERE j.queue = v_queue GROUP BY j.state
                UNION ALL
                SELECT d.state, -d.n FROM stampeded_count_deltas d WHERE d.queue = v_queue) both_sides
         GROUP BY both_sides.state HAVING sum(both_sides.n) <> 0;
    END LOOP;
END $$;
