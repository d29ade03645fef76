-- Gives waiting jobs that hold a dedup scope the arguments, meta, priority and time of a duplicate, which then needn't be written:
-- so a burst of enqueues leaves one job, with the last arguments. The arrays have one element for each job; a null time is now.
-- A job that is executing or final is left as it is, and not even locked: an enqueuer's open transaction may hold up no worker.
-- Returns the jobs that took the new arguments.
--
-- What a job is beyond that stays: its attempts and failures, its batch, and the jobs that it waits for, with their place in meta;
-- while it waits for those its time is theirs to give. Its checkpoint goes, as it belongs to the arguments of before. Everybody
-- locks by id, so that two who replace the same jobs can't wait for each other.
--
-- The plan may not depend on statistics, for the reason given in stampeded_claim(). So each job is looked up by its key (state and
-- scope are told in a form that no index serves), and then updated as what is in the way of its own INSERT: that finds a row by
-- the index named, where joining the locked rows to the table would read the whole queue for each of them when it seems small.
CREATE OR REPLACE FUNCTION stampeded_replace(p_queue text, p_ids uuid[], p_args jsonb[], p_meta jsonb DEFAULT '{}',
                                             p_priority bigint DEFAULT 0, p_scheduled_at timestamptz DEFAULT NULL)
RETURNS SETOF uuid
LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_nestloop = on
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_due timestamptz := coalesce(p_scheduled_at, now());
BEGIN
    IF cardinality(p_ids) IS DISTINCT FROM cardinality(p_args) THEN
        RAISE EXCEPTION 'p_args must have one object for each of p_ids' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT given.id, given.args, job.task
          FROM (SELECT id, args FROM unnest(p_ids, p_args) AS given (id, args) ORDER BY id) given
         CROSS JOIN LATERAL (
               SELECT j.task FROM stampeded_jobs j
                WHERE j.queue = p_queue AND j.id = given.id
                  AND CASE WHEN j.state IN ('available', 'retryable') THEN j.dedup_key IS NOT NULL END
                LIMIT 1
                  FOR UPDATE) job
    )
    INSERT INTO stampeded_jobs AS j (queue, id, task, args, meta, priority, scheduled_at)
    SELECT p_queue, held.id, held.task, held.args, p_meta, p_priority, v_due FROM held
    ON CONFLICT (queue, id) DO UPDATE
       SET args = excluded.args,
           meta = excluded.meta || CASE WHEN j.meta ? 'depends_on' THEN jsonb_build_object('depends_on', j.meta->'depends_on')
                                   ELSE '{}' END,
           priority = excluded.priority,
           scheduled_at = CASE WHEN j.scheduled_at = stampeded_waits_until() THEN j.scheduled_at ELSE excluded.scheduled_at END,
           checkpoint = NULL, checkpoint_at = NULL
    RETURNING j.id;
    IF FOUND AND v_due <= clock_timestamp() THEN
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
