-- Completes many jobs of one worker, by one statement for each queue; returns those that were still its own. The three arrays
-- have one element for each job. The plan is fixed for the reason given in stampeded_claim(). The jobs are named by an array of
-- their ids, since a join with the table would read the whole queue for each of them where statistics say that it has a row or
-- none; owner, attempt and state are told in forms that no index serves.
CREATE OR REPLACE FUNCTION stampeded_complete_many(p_worker_id uuid, p_queues text[], p_ids uuid[], p_attempts bigint[])
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
BEGIN
    FOR v_queue, v_ids, v_leases IN
        SELECT d.queue, array_agg(d.id), jsonb_object_agg(d.id || ' ' || d.attempt, true)
          FROM unnest(p_queues, p_ids, p_attempts) AS d(queue, id, attempt)
         WHERE d.id IS NOT NULL AND d.attempt IS NOT NULL
         GROUP BY d.queue ORDER BY d.queue
    LOOP
        RETURN QUERY
        UPDATE stampeded_jobs j
           SET state = 'completed', finished_at = clock_timestamp(), checkpoint = NULL, claimed_by = NULL,
               dedup_scope = CASE WHEN j.dedup_period IS NOT NULL THEN j.dedup_scope END
         WHERE j.queue = v_queue AND j.id = ANY (v_ids)
           AND CASE WHEN j.state IN ('claimed', 'executing')
               THEN j.claimed_by = p_worker_id AND v_leases ? (j.id || ' ' || j.attempt) END
        RETURNING j.queue, j.id;
    END LOOP;
END $$;
