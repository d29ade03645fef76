-- The heartbeat of many jobs of one worker; returns those that are still its own. The three arrays have one element for
-- each job; the plan is that of stampeded_complete_many(). A job whose row is locked at the moment (its own transaction may
-- hold a checkpoint) counts as owned and is touched next time: a heartbeat must not wait behind the work that it vouches for.
CREATE OR REPLACE FUNCTION stampeded_touch_many(p_worker_id uuid, p_queues text[], p_ids uuid[], p_attempts bigint[])
RETURNS TABLE (queue text, id uuid)
LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_nestloop = on
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_queue text;
BEGIN
    FOR v_queue IN SELECT DISTINCT q FROM unnest(p_queues) q ORDER BY q LOOP
        RETURN QUERY
        WITH held AS MATERIALIZED (
            SELECT DISTINCT h.id, h.attempt FROM unnest(p_queues, p_ids, p_attempts) AS h(queue, id, attempt) WHERE h.queue = v_queue
        ), own AS MATERIALIZED (
            SELECT j.id FROM held, stampeded_jobs j
             WHERE j.queue = v_queue AND j.id = held.id AND j.attempt = held.attempt
               AND CASE WHEN j.state IN ('claimed', 'executing') THEN j.claimed_by = p_worker_id END
        ), free AS MATERIALIZED (
            SELECT j.id FROM held, stampeded_jobs j
             WHERE j.queue = v_queue AND j.id = held.id AND j.attempt = held.attempt
               AND CASE WHEN j.state IN ('claimed', 'executing') THEN j.claimed_by = p_worker_id END
               FOR UPDATE OF j SKIP LOCKED
        ), touched AS (
            UPDATE stampeded_jobs j SET heartbeat_at = clock_timestamp()
              FROM free WHERE j.queue = v_queue AND j.id = free.id
        )
        SELECT v_queue, own.id FROM own;
    END LOOP;
END $$;
