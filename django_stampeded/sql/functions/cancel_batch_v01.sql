-- Cancels the jobs of a batch that aren't final, at most p_limit of them, with those of the batches within it, and seals them
-- all. Returns how many were cancelled and whether there are more: over the limit, added meanwhile, or locked by a transaction
-- that is just recording how they ended, for which it does not wait. To be called until there are none.
--
-- Each job becomes what stampeded_cancel makes of it. That takes a hundred times as long one by one, and a test compares.
CREATE OR REPLACE FUNCTION stampeded_cancel_batch(p_id uuid, p_reason text DEFAULT NULL, p_limit bigint DEFAULT 1000)
RETURNS TABLE (cancelled bigint, more boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_ids   uuid[];
    v_now   timestamptz := clock_timestamp();
    v_error text := left(coalesce(p_reason, 'its batch was cancelled'), 4000);
BEGIN
    v_ids := ARRAY(WITH RECURSIVE within (id) AS (
                       SELECT p_id UNION SELECT b.id FROM within JOIN stampeded_batches b ON b.parent_id = within.id)
                   SELECT id FROM within);
    UPDATE stampeded_batches SET sealed_at = clock_timestamp()
     WHERE id = ANY (v_ids) AND sealed_at IS NULL AND finished_at IS NULL;
    WITH held AS MATERIALIZED (
        SELECT queue, id FROM stampeded_jobs
         WHERE batch_id = ANY (v_ids) AND state NOT IN ('completed', 'discarded', 'cancelled')
         LIMIT p_limit
           FOR UPDATE SKIP LOCKED
    ), gone AS (
        UPDATE stampeded_jobs j
           SET state = 'cancelled', finished_at = v_now, dedup_scope = NULL, claimed_by = NULL,
               failure_kind = 'cancelled', last_error = v_error, error_fingerprint = stampeded_fingerprint(v_error),
               errors = stampeded_push_error(j.errors, stampeded_failure_entry(j, v_now, 'cancelled', v_error))
          FROM held
         WHERE j.queue = held.queue AND j.id = held.id
        RETURNING j.queue
    ), told AS (
        INSERT INTO stampeded_tallies (queue, what, n) SELECT queue, 'cancelled', count(*) FROM gone GROUP BY queue
    )
    SELECT count(*) INTO cancelled FROM gone;
    more := EXISTS (SELECT FROM stampeded_jobs
                     WHERE batch_id = ANY (v_ids) AND state NOT IN ('completed', 'discarded', 'cancelled'));
    RETURN NEXT;
END $$;
