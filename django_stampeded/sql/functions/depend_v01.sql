-- Makes a job that nobody has started wait until other jobs are final. The arrays have one element for each of those. What
-- happens when one of them is discarded or cancelled, or is gone already: 'fail' discards the job that waits, 'run' lets it run
-- all the same. Refuses a job that would wait, by whatever way round, for itself. Returns for how many it waits.
CREATE OR REPLACE FUNCTION stampeded_depend(p_queue text, p_id uuid, p_parent_queues text[], p_parent_ids uuid[],
                                            p_on_discard text DEFAULT 'fail') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_due timestamptz;
BEGIN
    IF cardinality(p_parent_queues) IS DISTINCT FROM cardinality(p_parent_ids) THEN
        RAISE EXCEPTION 'p_parent_ids must have one id for each of p_parent_queues' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (WITH RECURSIVE above (id) AS (
                   SELECT unnest(p_parent_ids)
                   UNION
                   SELECT d.parent_id FROM above JOIN stampeded_dependencies d ON d.child_id = above.id)
               SELECT FROM above WHERE id = p_id) THEN
        RAISE EXCEPTION 'job % would wait for itself: take the job that leads back to it out of its dependencies', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT scheduled_at INTO v_due FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND state IN ('available', 'retryable')
       FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % does not wait to be run, so it cannot wait for others', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE stampeded_jobs SET scheduled_at = stampeded_waits_until() WHERE queue = p_queue AND id = p_id;
    INSERT INTO stampeded_dependencies (parent_queue, parent_id, child_queue, child_id, due_at, on_discard)
    SELECT DISTINCT ON (parent.id) parent.queue, parent.id, p_queue, p_id, v_due, p_on_discard
      FROM unnest(p_parent_queues, p_parent_ids) AS parent (queue, id)
    ON CONFLICT (parent_id, child_id) DO NOTHING;
    PERFORM stampeded_resolve_dependencies(p_parent_ids);
    RETURN (SELECT count(*) FROM stampeded_dependencies WHERE child_id = p_id);
END $$;
