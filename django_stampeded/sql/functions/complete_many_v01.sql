-- Completes many jobs of one worker, by one statement for each queue; returns those that were still its own. The three arrays
-- have one element for each job. The plan is fixed for the reason given in stampeded_claim(): by key for each job named, for
-- which owner and state are told as in stampeded_complete().
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
    v_queue text;
BEGIN
    FOR v_queue IN SELECT DISTINCT q FROM unnest(p_queues) q ORDER BY q LOOP
        RETURN QUERY
        WITH done AS MATERIALIZED (
            SELECT d.id, d.attempt FROM unnest(p_queues, p_ids, p_attempts) AS d(queue, id, attempt) WHERE d.queue = v_queue
        )
        UPDATE stampeded_jobs j
           SET state = 'completed', finished_at = clock_timestamp(), checkpoint = NULL, claimed_by = NULL,
               dedup_scope = CASE WHEN j.dedup_period IS NOT NULL THEN j.dedup_scope END
          FROM done
         WHERE j.queue = v_queue AND j.id = done.id AND j.attempt = done.attempt
           AND CASE WHEN j.state IN ('claimed', 'executing') THEN j.claimed_by = p_worker_id END
        RETURNING j.queue, j.id;
    END LOOP;
END $$;
