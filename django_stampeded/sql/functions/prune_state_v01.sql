-- Deletes up to p_limit jobs of one final state that finished so long ago, oldest first, of the one queue in p_queues, or (p_others)
-- of all queues but those. What somebody holds locked is passed over.
CREATE OR REPLACE FUNCTION stampeded_prune_state(p_state text, p_older_than interval, p_limit bigint, p_queues text[],
                                                 p_others boolean) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - p_older_than;   -- a volatile expression can't bound the index
    v_pruned bigint;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT queue, id FROM stampeded_jobs
         WHERE state = p_state AND finished_at < v_before
           AND (p_others OR queue = p_queues[1]) AND (NOT p_others OR queue <> ALL (p_queues))
           AND (batch_id IS NULL OR NOT EXISTS (
                    SELECT FROM stampeded_batches b WHERE b.id = batch_id AND b.finished_at IS NULL))
           AND NOT EXISTS (SELECT FROM stampeded_dependencies d WHERE d.parent_id = stampeded_jobs.id)
           AND (dedup_key IS NULL OR dedup_period IS NULL
                OR date_trunc(dedup_period, inserted_at AT TIME ZONE 'UTC') + ('1 ' || dedup_period)::interval
                   <= clock_timestamp() AT TIME ZONE 'UTC')
         ORDER BY finished_at
         LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), gone AS MATERIALIZED (
        DELETE FROM stampeded_jobs j USING old WHERE j.queue = old.queue AND j.id = old.id RETURNING j.id
    ), told AS (
        DELETE FROM stampeded_progress WHERE job_id = ANY (ARRAY(SELECT id FROM gone))
    )
    SELECT count(*) INTO v_pruned FROM gone;
    RETURN v_pruned;
END $$;
