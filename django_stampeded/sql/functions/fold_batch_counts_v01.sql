-- What stampeded_fold_counts() does, for the counts of the batches. Those of finished ones, which stand on the batch, just go.
CREATE OR REPLACE FUNCTION stampeded_fold_batch_counts(p_crowd bigint DEFAULT 8) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_folded bigint;
BEGIN
    WITH crowded AS MATERIALIZED (
        SELECT batch_id, state, is_open
          FROM (SELECT batch_id, state, count(*) AS crowd,
                       EXISTS (SELECT FROM stampeded_batches b WHERE b.id = batch_id AND b.finished_at IS NULL) AS is_open
                  FROM stampeded_batch_deltas
                 GROUP BY batch_id, state) counted
         WHERE crowd > p_crowd OR NOT is_open
    ), picked AS MATERIALIZED (
        SELECT d.ctid FROM stampeded_batch_deltas d
         WHERE (batch_id, state) IN (SELECT batch_id, state FROM crowded)
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM stampeded_batch_deltas WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
        RETURNING batch_id, state, n
    ), folded AS (
        INSERT INTO stampeded_batch_deltas (batch_id, state, n)
        SELECT batch_id, state, sum(n) FROM gone JOIN crowded USING (batch_id, state) WHERE is_open
         GROUP BY batch_id, state HAVING sum(n) <> 0
    )
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded;
END $$;
