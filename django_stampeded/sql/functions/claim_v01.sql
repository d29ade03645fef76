-- Claims up to p_limit due jobs of one queue for a worker and returns them in the order in which they should start.
--
-- The rows are chosen and locked in a CTE of their own, which runs once and stops at the limit, so no join can re-run it and
-- take more. SKIP LOCKED passes over what another claim holds; a job that was claimed and committed between our snapshot and
-- our lock is re-read by PostgreSQL and no longer qualifies.
--
-- The plan must not depend on statistics, which are absent, stale or wrong exactly when a queue fills up: with every other
-- way of reading disabled, what remains is the claim index in its own order, which stops at the limit and, by skip scan,
-- passes over the jobs of the future that stand before the due ones in each priority; and the rows locked are updated by where
-- they are, so that there is no index to choose. Custom plans prune partitions while planning; a generic one would lock every
-- partition there is.
--
-- A queue with max_running is claimed from by one session at a time, which holds the queue's lock until it commits: the jobs
-- it counts as running then include all that others have claimed, so the limit is exact. Other queues pay one look-up. The
-- lock is asked for some 50 ms and then passed over as a locked job is: waiting for it would let two that claim from the
-- same queues in another order block each other for good, and an open transaction hold up every claimer.
CREATE OR REPLACE FUNCTION stampeded_claim(p_queue text, p_worker_id uuid, p_limit bigint DEFAULT 1, p_now timestamptz DEFAULT NULL)
RETURNS SETOF stampeded_jobs
LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_incremental_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_nestloop = on
SET enable_indexscan = on
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_limit  bigint := p_limit;
    v_locked boolean;
    v_policy stampeded_queue_policies;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_worker_id IS NULL THEN
        RAISE EXCEPTION 'p_worker_id must be the id of a registered worker, not null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO v_policy FROM stampeded_queue_policies WHERE queue = p_queue;
    IF p_limit = 0 OR v_policy.paused_at IS NOT NULL THEN
        RETURN;
    END IF;
    IF v_policy.max_running IS NOT NULL THEN
        FOR i IN 1 .. 20 LOOP
            v_locked := pg_try_advisory_xact_lock(hashtextextended(p_queue, 'stampeded_jobs'::regclass::oid::bigint));
            EXIT WHEN v_locked;
            PERFORM pg_sleep(0.001 + random() * 0.003);
        END LOOP;
        IF NOT v_locked THEN
            RETURN;
        END IF;
        SELECT least(p_limit, greatest(v_policy.max_running - count(*), 0)) INTO v_limit
          FROM stampeded_jobs WHERE queue = p_queue AND state IN ('claimed', 'executing');
    END IF;
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT ctid FROM stampeded_jobs
         WHERE queue = p_queue AND state IN ('available', 'retryable')
           AND scheduled_at <= v_now AND attempt < max_attempts
         ORDER BY priority, scheduled_at, id
         LIMIT v_limit
           FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE stampeded_jobs j
           SET state = 'executing', attempt = j.attempt + 1, claimed_by = p_worker_id,
               claimed_at = clock_timestamp(), heartbeat_at = clock_timestamp(), finished_at = NULL,
               attempted_by = (j.attempted_by || p_worker_id::text)[greatest(1, cardinality(j.attempted_by) - 8):]
          FROM due
         WHERE j.queue = p_queue AND j.ctid = due.ctid
        RETURNING j.*
    )
    SELECT * FROM taken ORDER BY taken.priority, taken.scheduled_at, taken.id;
END $$;
