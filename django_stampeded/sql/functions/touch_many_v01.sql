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
    v_queue  text;
    v_ids    uuid[];
    v_leases jsonb;
    v_free   uuid[];
BEGIN
    FOR v_queue, v_ids, v_leases IN
        SELECT h.queue, array_agg(h.id), jsonb_object_agg(h.id || ' ' || h.attempt, true)
          FROM unnest(p_queues, p_ids, p_attempts) AS h(queue, id, attempt)
         WHERE h.id IS NOT NULL AND h.attempt IS NOT NULL
         GROUP BY h.queue ORDER BY h.queue
    LOOP
        RETURN QUERY
        SELECT v_queue, j.id FROM stampeded_jobs j
         WHERE j.queue = v_queue AND j.id = ANY (v_ids)
           AND CASE WHEN j.state IN ('claimed', 'executing')
               THEN j.claimed_by = p_worker_id AND v_leases ? (j.id || ' ' || j.attempt) END;
        v_free := ARRAY(
            SELECT j.id FROM stampeded_jobs j
             WHERE j.queue = v_queue AND j.id = ANY (v_ids)
               AND CASE WHEN j.state IN ('claimed', 'executing')
                   THEN j.claimed_by = p_worker_id AND v_leases ? (j.id || ' ' || j.attempt) END
               FOR UPDATE SKIP LOCKED);
        UPDATE stampeded_jobs j SET heartbeat_at = clock_timestamp() WHERE j.queue = v_queue AND j.id = ANY (v_free);
    END LOOP;
END $$;
