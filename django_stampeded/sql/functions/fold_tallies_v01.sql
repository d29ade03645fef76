-- Replaces crowded rows of the tallies by their sums, for an install that nobody samples; returns how many rows went. Waits
-- for nobody, as stampeded_fold_counts.
CREATE OR REPLACE FUNCTION stampeded_fold_tallies(p_crowd bigint DEFAULT 100) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_folded bigint;
BEGIN
    WITH picked AS MATERIALIZED (
        SELECT ctid FROM stampeded_tallies
         WHERE (queue, what) IN (SELECT queue, what FROM stampeded_tallies GROUP BY queue, what HAVING count(*) > p_crowd)
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM stampeded_tallies WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
        RETURNING queue, what, n
    ), folded AS (
        INSERT INTO stampeded_tallies (queue, what, n) SELECT queue, what, sum(n) FROM gone GROUP BY queue, what
    )
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded;
END $$;
