-- Trigger: appends what a statement did to the counts. About one statement in 256 also folds, so that reading the counts
-- stays cheap even where nobody runs maintenance. Only under READ COMMITTED: a stricter transaction that folded rows which
-- another one has folded meanwhile would fail, and no enqueue may fail because of the counts.
CREATE OR REPLACE FUNCTION stampeded_count_changes() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queues text[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, count(*) FROM new_jobs GROUP BY queue, state;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, sum(n)
          FROM (SELECT queue, state, -1 AS n FROM old_jobs UNION ALL SELECT queue, state, 1 FROM new_jobs) changed
         GROUP BY queue, state HAVING sum(n) <> 0;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, -count(*) FROM old_jobs GROUP BY queue, state;
    ELSIF TG_RELID = 'stampeded_jobs'::regclass THEN
        DELETE FROM stampeded_count_deltas;
        RETURN NULL;
    ELSE                                    -- TRUNCATE of one partition; the DEFAULT one is named by no queue
        v_queues := stampeded_partition_queues(TG_RELID);
        DELETE FROM stampeded_count_deltas
         WHERE CASE WHEN v_queues IS NOT NULL THEN queue = ANY (v_queues)
               ELSE queue NOT IN (SELECT unnest(stampeded_partition_queues(inhrelid))
                                    FROM pg_inherits WHERE inhparent = 'stampeded_jobs'::regclass) END;
        RETURN NULL;
    END IF;
    IF random() < 1.0 / 256 AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM stampeded_fold_counts();
    END IF;
    RETURN NULL;
END $$;
