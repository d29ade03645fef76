-- Deletes finished jobs, at most p_limit in all; returns how many. Completed ones go by p_older_than, discarded and cancelled
-- ones by p_failed_older_than; what they said of their progress goes along. A job that holds the slot of a period stays until its bucket has ended, one of a batch until the
-- batch has.
CREATE OR REPLACE FUNCTION stampeded_prune(p_older_than interval DEFAULT '1 hour', p_limit bigint DEFAULT 10000,
                                           p_failed_older_than interval DEFAULT '7 days') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_state  text;
    v_before timestamptz;      -- computed beforehand: a volatile expression can't bound the index, and all would be read
    v_left   bigint := p_limit;
    v_pruned integer;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOREACH v_state IN ARRAY ARRAY['completed', 'discarded', 'cancelled'] LOOP
        EXIT WHEN v_left = 0;
        v_before := clock_timestamp() - CASE v_state WHEN 'completed' THEN p_older_than ELSE p_failed_older_than END;
        WITH old AS MATERIALIZED (
            SELECT queue, id FROM stampeded_jobs
             WHERE state = v_state AND finished_at < v_before
               AND (batch_id IS NULL OR NOT EXISTS (
                        SELECT FROM stampeded_batches b WHERE b.id = batch_id AND b.finished_at IS NULL))
               AND (dedup_key IS NULL OR dedup_period IS NULL
                    OR date_trunc(dedup_period, inserted_at AT TIME ZONE 'UTC') + ('1 ' || dedup_period)::interval
                       <= clock_timestamp() AT TIME ZONE 'UTC')
             ORDER BY finished_at
             LIMIT v_left FOR UPDATE SKIP LOCKED
        ), gone AS MATERIALIZED (
            DELETE FROM stampeded_jobs j USING old WHERE j.queue = old.queue AND j.id = old.id RETURNING j.id
        ), told AS (
            DELETE FROM stampeded_progress WHERE job_id = ANY (ARRAY(SELECT id FROM gone))
        )
        SELECT count(*) INTO v_pruned FROM gone;
        v_left := v_left - v_pruned;
    END LOOP;
    RETURN p_limit - v_left;
END $$;
