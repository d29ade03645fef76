-- Replaces the rows of each (queue, state) that has gathered more than p_crowd of them by their sum; returns how many rows
-- went. It waits for nobody and nobody waits for it: rows that another transaction is folding are left to that one, and
-- until this one commits readers see the rows it replaces. After a crash of the server it first writes down what that took
-- from the unlogged queues; once nothing is left to write, it marks the counts as right again.
CREATE OR REPLACE FUNCTION stampeded_fold_counts(p_crowd bigint DEFAULT 8) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_folded bigint;
BEGIN
    IF pg_sequence_last_value('stampeded_since_crash'::regclass) IS NULL
       AND has_sequence_privilege('stampeded_since_crash'::regclass, 'USAGE')
       AND pg_try_advisory_xact_lock(hashtextextended('stampeded_since_crash', 'stampeded_jobs'::regclass::oid::bigint)) THEN
        INSERT INTO stampeded_count_deltas (queue, state, n) SELECT queue, state, n FROM stampeded_unlogged_losses();
        IF NOT FOUND THEN
            PERFORM stampeded_recount_batches();
            PERFORM nextval('stampeded_since_crash');
        END IF;
    END IF;
    WITH picked AS MATERIALIZED (
        SELECT ctid FROM stampeded_count_deltas
         WHERE (queue, state) IN (SELECT queue, state FROM stampeded_count_deltas
                                   GROUP BY queue, state HAVING count(*) > p_crowd)
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM stampeded_count_deltas WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
        RETURNING queue, state, n
    ), folded AS (
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, sum(n) FROM gone GROUP BY queue, state HAVING sum(n) <> 0
    )
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded + stampeded_fold_batch_counts(p_crowd) + stampeded_fold_tallies();
END $$;
