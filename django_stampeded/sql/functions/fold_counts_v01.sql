-- Replaces the rows of each (queue, state) that has gathered more than p_crowd of them by their sum; returns how many rows
-- went. It waits for nobody and nobody waits for it: rows that another transaction is folding are left to that one, and
-- until this one commits readers see the rows it replaces.
CREATE OR REPLACE FUNCTION stampeded_fold_counts(p_crowd bigint DEFAULT 8) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_folded bigint;
BEGIN
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
    RETURN v_folded + stampeded_fold_batch_counts(p_crowd);
END $$;
