-- What stampeded_fold_counts() does, for the counts of the batches.
CREATE OR REPLACE FUNCTION stampeded_fold_batch_counts(p_crowd bigint DEFAULT 8) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_folded bigint;
BEGIN
    WITH picked AS MATERIALIZED (
        SELECT ctid FROM stampeded_batch_deltas
         WHERE (batch_id, state) IN (SELECT batch_id, state FROM stampeded_batch_deltas
                                   GROUP BY batch_id, state HAVING count(*) > p_crowd)
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM stampeded_batch_deltas WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
        RETURNING batch_id, state, n
    ), folded AS (
        INSERT INTO stampeded_batch_deltas (batch_id, state, n)
        SELECT batch_id, state, sum(n) FROM gone GROUP BY batch_id, state HAVING sum(n) <> 0
    )
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded;
END $$;
