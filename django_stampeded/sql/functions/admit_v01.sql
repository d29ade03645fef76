-- What a queue's policy and breakers (p_rooms, see stampeded_breaker_rooms) admit to a claim of p_limit jobs: at most `room` in
-- claim order, or the `chosen` ones, which are locked.
--
-- A queue with limits is claimed from by one session at a time, which holds the queue's lock until it commits: what it counts
-- then includes all that others have claimed, so the limits are exact. That needs a snapshot taken under the lock, hence READ
-- COMMITTED. The lock is asked for some 50 ms and then passed over as a locked job is: waiting for it would let two that claim
-- from the same queues in another order block each other for good, and an open transaction hold up every claimer.
CREATE OR REPLACE FUNCTION stampeded_admit(p_policy stampeded_queue_policies, p_limit bigint, p_now timestamptz, p_rooms jsonb,
                                           OUT room bigint, OUT chosen tid[])
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_keyed  boolean := EXISTS (SELECT FROM stampeded_limits WHERE queue = p_policy.queue);
    v_locked boolean;
BEGIN
    room := p_limit;
    IF num_nonnulls(p_policy.max_running, p_policy.rate_limit) = 0 AND NOT coalesce(p_policy.fair_tenants, false) AND NOT v_keyed
       AND p_rooms IS NULL THEN
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'queue % has limits, which hold only under READ COMMITTED: claim from it at that isolation level',
            quote_literal(p_policy.queue) USING ERRCODE = 'invalid_transaction_state';
    END IF;
    FOR i IN 1 .. 20 LOOP
        v_locked := pg_try_advisory_xact_lock(hashtextextended(p_policy.queue, 'stampeded_jobs'::regclass::oid::bigint));
        EXIT WHEN v_locked;
        PERFORM pg_sleep(0.001 + random() * 0.003);
    END LOOP;
    IF NOT v_locked THEN
        room := 0;
        RETURN;
    END IF;
    IF p_policy.max_running IS NOT NULL THEN
        room := least(room, greatest(p_policy.max_running - (SELECT count(*) FROM stampeded_jobs
                 WHERE queue = p_policy.queue AND state IN ('claimed', 'executing')), 0));
    END IF;
    IF p_policy.rate_limit IS NOT NULL AND room > 0 THEN
        room := least(room, stampeded_rate_room(p_policy.queue, 'queue', '', p_policy.rate_limit, p_policy.rate_period_secs,
                                                clock_timestamp()));
    END IF;
    IF room > 0 AND (v_keyed OR p_policy.fair_tenants OR p_rooms IS NOT NULL) THEN
        room := least(room, 2000);  -- it weighs each with all before
        chosen := stampeded_choose(p_policy.queue, room, p_now, coalesce(p_policy.fair_tenants, false), v_keyed, p_rooms);
        room := 0;
    END IF;
END $$;
