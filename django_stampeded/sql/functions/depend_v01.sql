-- Makes a job that nobody has started wait until other jobs are final. The arrays have one element for each of those. What
-- happens when one of them is discarded or cancelled, or is gone already: 'fail' discards the job that waits, 'run' lets it run
-- all the same. Refuses a job that would wait, by whatever way round, for itself. Returns for how many it waits.
--
-- A job that was enqueued in this very transaction can be waited for by nobody else's jobs; for others, one caller at a time,
-- lest two of them close a ring that neither sees.
CREATE OR REPLACE FUNCTION stampeded_depend(p_queue text, p_id uuid, p_parent_queues text[], p_parent_ids uuid[],
                                            p_on_discard text DEFAULT 'fail') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_job stampeded_jobs;
BEGIN
    IF cardinality(p_parent_queues) IS DISTINCT FROM cardinality(p_parent_ids) THEN
        RAISE EXCEPTION 'p_parent_ids must have one id for each of p_parent_queues' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_on_discard IS NULL OR p_on_discard NOT IN ('fail', 'run') THEN
        RAISE EXCEPTION 'p_on_discard must be fail or run, not %', coalesce(quote_literal(p_on_discard), 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO v_job FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND state IN ('available', 'retryable')
       FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % does not wait to be run, so it cannot wait for others', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_job.inserted_at <> now() THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('stampeded_depend', 'stampeded_jobs'::regclass::oid::bigint));
    END IF;
    IF EXISTS (WITH RECURSIVE above (id) AS (
                   SELECT unnest(p_parent_ids)
                   UNION
                   SELECT d.parent_id FROM above JOIN stampeded_dependencies d ON d.child_id = above.id)
               SELECT FROM above WHERE id = p_id) THEN
        RAISE EXCEPTION 'job % would wait for itself: take the job that leads back to it out of its dependencies', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO stampeded_dependencies (parent_queue, parent_id, child_queue, child_id, due_at, on_discard)
    SELECT DISTINCT ON (parent.id) parent.queue, parent.id, p_queue, p_id,
           CASE WHEN v_job.scheduled_at <> stampeded_waits_until() THEN v_job.scheduled_at
           ELSE coalesce((SELECT max(due_at) FROM stampeded_dependencies WHERE child_id = p_id), clock_timestamp()) END,
           p_on_discard
      FROM unnest(p_parent_queues, p_parent_ids) AS parent (queue, id)
    ON CONFLICT (parent_id, child_id) DO UPDATE SET on_discard = excluded.on_discard;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    UPDATE stampeded_jobs SET scheduled_at = stampeded_waits_until() WHERE queue = p_queue AND id = p_id;
    -- Of those that have ended alone: to ask of the others would read again, for each job, all that wait for the same ones.
    PERFORM stampeded_resolve_dependencies(ARRAY(
        SELECT parent.id FROM unnest(p_parent_queues, p_parent_ids) AS parent (queue, id)
         WHERE coalesce((SELECT j.state FROM stampeded_jobs j WHERE j.queue = parent.queue AND j.id = parent.id), 'gone')
               IN ('completed', 'discarded', 'cancelled', 'gone')));
    RETURN (SELECT count(*) FROM stampeded_dependencies WHERE child_id = p_id);
END $$;
