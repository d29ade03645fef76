-- Trigger: appends what a statement did to the counts. About one statement in 256 also folds, so that reading the counts
-- stays cheap even where nobody runs maintenance. Only under READ COMMITTED: a stricter transaction that folded rows which
-- another one has folded meanwhile would fail, and no enqueue may fail because of the counts.
--
-- Jobs of open batches, and jobs that others wait for, are seen to from here as well; statements without such jobs pay a glance
-- for that. The jobs that wait are told only by the outermost statement, under READ COMMITTED, and at most 1,000 of them: the
-- rest is swept up (stampeded_sweep_dependencies).
CREATE OR REPLACE FUNCTION stampeded_count_changes() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queues text[];
    v_ended  uuid[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, count(*) FROM new_jobs GROUP BY queue, state;
        IF EXISTS (SELECT FROM new_jobs WHERE batch_id IS NOT NULL) THEN
            PERFORM stampeded_join_batches(ARRAY(
                SELECT DISTINCT batch_id FROM new_jobs
                 WHERE batch_id IS NOT NULL AND state NOT IN ('completed', 'discarded', 'cancelled')));
            INSERT INTO stampeded_batch_deltas (batch_id, state, n)
            SELECT batch_id, state, count(*) FROM new_jobs
             WHERE batch_id IN (SELECT id FROM stampeded_batches WHERE finished_at IS NULL)
             GROUP BY batch_id, state;
        END IF;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, sum(n)
          FROM (SELECT queue, state, -1 AS n FROM old_jobs UNION ALL SELECT queue, state, 1 FROM new_jobs) changed
         GROUP BY queue, state HAVING sum(n) <> 0;
        IF EXISTS (SELECT FROM new_jobs WHERE batch_id IS NOT NULL) THEN
            INSERT INTO stampeded_batch_deltas (batch_id, state, n)
            SELECT batch_id, state, sum(n)
              FROM (SELECT batch_id, state, -1 AS n FROM old_jobs UNION ALL SELECT batch_id, state, 1 FROM new_jobs) changed
             WHERE batch_id IN (SELECT id FROM stampeded_batches WHERE finished_at IS NULL)
             GROUP BY batch_id, state HAVING sum(n) <> 0;
        END IF;
        IF EXISTS (SELECT FROM new_jobs WHERE state IN ('completed', 'discarded', 'cancelled'))
           AND EXISTS (SELECT FROM stampeded_dependencies) THEN
            v_ended := ARRAY(SELECT DISTINCT n.id FROM new_jobs n JOIN stampeded_dependencies d ON d.parent_id = n.id
                              WHERE n.state IN ('completed', 'discarded', 'cancelled'));
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO stampeded_count_deltas (queue, state, n)
        SELECT queue, state, -count(*) FROM old_jobs GROUP BY queue, state;
        INSERT INTO stampeded_tallies (queue, what, n)
        SELECT queue, 'deleted ' || state, count(*) FROM old_jobs
         WHERE state IN ('completed', 'discarded', 'cancelled') GROUP BY queue, state;
        IF EXISTS (SELECT FROM old_jobs WHERE batch_id IS NOT NULL) THEN
            INSERT INTO stampeded_batch_deltas (batch_id, state, n)
            SELECT batch_id, state, -count(*) FROM old_jobs
             WHERE batch_id IN (SELECT id FROM stampeded_batches WHERE finished_at IS NULL)
             GROUP BY batch_id, state;
        END IF;
        IF EXISTS (SELECT FROM stampeded_dependencies) THEN
            v_ended := ARRAY(SELECT DISTINCT o.id FROM old_jobs o JOIN stampeded_dependencies d ON d.parent_id = o.id);
        END IF;
    ELSIF TG_RELID = 'stampeded_jobs'::regclass THEN
        DELETE FROM stampeded_count_deltas;
        DELETE FROM stampeded_batch_deltas;
        DELETE FROM stampeded_batches WHERE finished_at IS NULL;
        DELETE FROM stampeded_dependencies;
        RETURN NULL;
    ELSE                                    -- TRUNCATE of one partition; the DEFAULT one is named by no queue
        v_queues := stampeded_partition_queues(TG_RELID);
        DELETE FROM stampeded_count_deltas
         WHERE CASE WHEN v_queues IS NOT NULL THEN queue = ANY (v_queues)
               ELSE queue NOT IN (SELECT unnest(stampeded_partition_queues(inhrelid))
                                    FROM pg_inherits WHERE inhparent = 'stampeded_jobs'::regclass) END;
        PERFORM stampeded_recount_batches();
        RETURN NULL;
    END IF;
    IF v_ended <> '{}' AND pg_trigger_depth() = 1 AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM stampeded_resolve_dependencies(v_ended, 1000);
    END IF;
    IF random() < 1.0 / 256 AND current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM stampeded_fold_counts();
    END IF;
    RETURN NULL;
END $$;
