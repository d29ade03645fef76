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
-- A queue with a policy, or with jobs for a destination whose breaker isn't closed, is asked first what it admits
-- (stampeded_admit): others pay two look-ups. There, how many jobs may start
-- is decided, and where keys are told apart or tenants take turns, which ones; then they are locked already.
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
    v_began  timestamptz;
    v_found  stampeded_queue_policies;
    v_policy stampeded_queue_policies;
    v_chosen tid[];
    v_taken  bigint;
    v_rooms  jsonb;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_worker_id IS NULL THEN
        RAISE EXCEPTION 'p_worker_id must be the id of a registered worker, not null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR v_found IN SELECT * FROM stampeded_queue_policies WHERE queue IN (p_queue, '*') LOOP
        IF v_found.paused_at IS NOT NULL AND (v_found.paused_until IS NULL OR v_found.paused_until > v_now) THEN
            RETURN;
        ELSIF v_found.queue = p_queue THEN
            v_policy := v_found;
        END IF;
    END LOOP;
    IF v_limit > 0 AND EXISTS (SELECT FROM stampeded_breakers WHERE state <> 'closed' AND kind = 'destination'
                                  AND (queues IS NULL OR p_queue = ANY (queues)))
       AND current_setting('transaction_isolation') = 'read committed' THEN  -- else probes could not be told apart
        v_policy.queue := p_queue;
        v_rooms := stampeded_breaker_rooms(p_queue);
    END IF;
    IF v_policy.queue IS NOT NULL AND v_limit > 0 THEN
        SELECT room, chosen INTO v_limit, v_chosen FROM stampeded_admit(v_policy, p_limit, v_now, v_rooms);
    END IF;
    IF v_limit = 0 AND v_chosen IS NULL THEN
        RETURN;
    END IF;
    v_began := clock_timestamp();
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
          FROM (SELECT ctid FROM due UNION ALL SELECT * FROM stampeded_each_row(v_chosen)) AS picked (ctid)
         WHERE j.queue = p_queue AND j.ctid = picked.ctid
        RETURNING j.*
    )
    SELECT * FROM taken ORDER BY taken.priority, taken.scheduled_at, taken.id;
    IF v_policy.rate_limit IS NOT NULL OR v_chosen IS NOT NULL THEN
        GET DIAGNOSTICS v_taken = ROW_COUNT;
        PERFORM stampeded_record_starts(v_policy, p_worker_id, v_began, v_taken);
    END IF;
    IF v_rooms IS NOT NULL THEN
        PERFORM stampeded_start_probes(p_queue, p_worker_id, v_began, v_rooms);
    END IF;
END $$;
