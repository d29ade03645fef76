-- Tells the jobs that wait for one of these jobs that it is final. The last one waited for makes a job due; one that was
-- discarded or cancelled, or is gone, discards the job that waits, unless it said to run all the same. Discarding goes on to
-- those that wait for that one in turn, through the same trigger.
CREATE OR REPLACE FUNCTION stampeded_resolve_dependencies(p_parents uuid[]) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_edge     record;
    v_child    stampeded_jobs;
    v_resolved integer := 0;
BEGIN
    FOR v_edge IN
        SELECT d.*, j.state AS parent_state, j.failure_kind
          FROM stampeded_dependencies d
          LEFT JOIN stampeded_jobs j ON j.queue = d.parent_queue AND j.id = d.parent_id
         WHERE d.parent_id = ANY (p_parents) AND (j.id IS NULL OR j.state IN ('completed', 'discarded', 'cancelled'))
         ORDER BY d.child_id
           FOR UPDATE OF d SKIP LOCKED
    LOOP
        DELETE FROM stampeded_dependencies WHERE parent_id = v_edge.parent_id AND child_id = v_edge.child_id;
        v_resolved := v_resolved + 1;
        SELECT * INTO v_child FROM stampeded_jobs
         WHERE queue = v_edge.child_queue AND id = v_edge.child_id AND state IN ('available', 'retryable')
           FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        IF v_edge.on_discard = 'fail' AND v_edge.parent_state IS DISTINCT FROM 'completed' THEN
            DELETE FROM stampeded_dependencies WHERE child_id = v_edge.child_id;
            PERFORM stampeded_apply_failure(v_child, 'unrecoverable',
                format('job %s, which it depends on, %s', v_edge.parent_id, coalesce('was ' || v_edge.parent_state, 'is gone')),
                NULL, NULL);
        ELSIF NOT EXISTS (SELECT FROM stampeded_dependencies WHERE child_id = v_edge.child_id) THEN
            UPDATE stampeded_jobs SET scheduled_at = v_edge.due_at
             WHERE queue = v_edge.child_queue AND id = v_edge.child_id AND scheduled_at = stampeded_waits_until();
            PERFORM stampeded_notify_due(v_edge.child_queue);
        END IF;
    END LOOP;
    RETURN v_resolved;
END $$;
