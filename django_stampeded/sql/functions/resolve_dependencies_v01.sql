-- Tells the jobs that wait for one of these jobs that it is final, at most p_limit of them. The last one waited for makes a job
-- due; one that was discarded or cancelled, or is gone, discards the job that waits, unless it said to run all the same, and
-- that in turn those that wait for it. One that has been made due meanwhile by an operator waits for nobody any more.
--
-- It waits for nobody: a job that another transaction has locked is marked as missed and left to the next sweep, for the caller
-- is in the middle of recording how jobs ended. Discarding goes on by a list instead of by the trigger (which leaves what
-- happens within itself alone), so that no chain is too long. Returns how many it told.
CREATE OR REPLACE FUNCTION stampeded_resolve_dependencies(p_parents uuid[], p_limit bigint DEFAULT 10000) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_parents uuid[] := p_parents;
    v_next    uuid[];
    v_queues  text[] := '{}';
    v_edge    record;
    v_child   stampeded_jobs;
    v_told    integer := 0;
BEGIN
    WHILE v_parents <> '{}' AND v_told < p_limit LOOP
        v_next := '{}';
        FOR v_edge IN
            SELECT d.*, j.state AS parent_state
              FROM stampeded_dependencies d
              LEFT JOIN stampeded_jobs j ON j.queue = d.parent_queue AND j.id = d.parent_id
             WHERE d.parent_id = ANY (v_parents) AND (j.id IS NULL OR j.state IN ('completed', 'discarded', 'cancelled'))
             ORDER BY d.child_id
             LIMIT p_limit - v_told
               FOR UPDATE OF d SKIP LOCKED
        LOOP
            SELECT * INTO v_child FROM stampeded_jobs
             WHERE queue = v_edge.child_queue AND id = v_edge.child_id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND AND EXISTS (SELECT FROM stampeded_jobs WHERE queue = v_edge.child_queue AND id = v_edge.child_id) THEN
                UPDATE stampeded_dependencies SET missed = true
                 WHERE parent_id = v_edge.parent_id AND child_id = v_edge.child_id;
                CONTINUE;
            END IF;
            v_told := v_told + 1;
            DELETE FROM stampeded_dependencies WHERE parent_id = v_edge.parent_id AND child_id = v_edge.child_id;
            CONTINUE WHEN NOT coalesce(
                v_child.state IN ('available', 'retryable') AND v_child.scheduled_at = stampeded_waits_until(), false);
            IF v_edge.on_discard = 'fail' AND v_edge.parent_state IS DISTINCT FROM 'completed' THEN
                -- One that somebody holds, who sees to another parent's end, is swept up: two who waited here for each other's
                -- would undo the outcomes that they are recording.
                DELETE FROM stampeded_dependencies WHERE (parent_id, child_id) IN (
                    SELECT parent_id, child_id FROM stampeded_dependencies WHERE child_id = v_edge.child_id
                       FOR UPDATE SKIP LOCKED);
                PERFORM stampeded_apply_failure(v_child, 'unrecoverable',
                    format('job %s, which it depends on, %s', v_edge.parent_id, coalesce('was ' || v_edge.parent_state, 'is gone')),
                    NULL, NULL);
                v_next := v_next || v_edge.child_id;
            ELSIF NOT EXISTS (SELECT FROM stampeded_dependencies WHERE child_id = v_edge.child_id) THEN
                UPDATE stampeded_jobs SET scheduled_at = v_edge.due_at WHERE queue = v_edge.child_queue AND id = v_edge.child_id;
                IF NOT v_edge.child_queue = ANY (v_queues) THEN
                    v_queues := v_queues || v_edge.child_queue;
                    PERFORM stampeded_notify_due(v_edge.child_queue);
                END IF;
            END IF;
        END LOOP;
        v_parents := v_next;
    END LOOP;
    RETURN v_told;
END $$;
