-- Enqueues the callbacks of batches that have come so far, of all open ones or of those named; returns the batches that have
-- finished now.
--
-- Whoever completes a batch's jobs calls this after its commit, and maintenance each second. Of two transactions that end the
-- last two jobs at once neither sees the other's end, so no trigger could tell that a batch is through; the one that looks
-- after the later commit can. The row's lock makes the callback one, and it is taken only when the counts say that it is worth
-- it, so that the jobs of a batch don't queue up behind it. A batch that somebody is adding to, or looks at, is left to the
-- next look. What is decided under the lock is read after it was taken, which only READ COMMITTED does.
CREATE OR REPLACE FUNCTION stampeded_finish_batches(p_ids uuid[] DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_id    uuid;
    v_batch stampeded_batches;
    v_state jsonb;
    v_well  boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'stampeded_finish_batches() must be called under READ COMMITTED, not %',
            upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
    END IF;
    FOREACH v_id IN ARRAY ARRAY(
        SELECT b.id
          FROM stampeded_batches b
         CROSS JOIN LATERAL (
               SELECT coalesce(sum(n) FILTER (WHERE state IN ('discarded', 'cancelled')), 0) AS failed,
                      coalesce(sum(n) FILTER (WHERE state NOT IN ('completed', 'discarded', 'cancelled')), 0) AS unfinished
                 FROM stampeded_batch_deltas WHERE batch_id = b.id) jobs
         WHERE b.finished_at IS NULL AND (p_ids IS NULL OR b.id = ANY (p_ids))
           AND (b.failed_at IS NULL AND jobs.failed > 0
                OR b.sealed_at IS NOT NULL AND jobs.unfinished = 0
                   AND NOT EXISTS (SELECT FROM stampeded_batches c WHERE c.parent_id = b.id AND c.finished_at IS NULL))
         ORDER BY b.id)
    LOOP
        SELECT * INTO v_batch FROM stampeded_batches WHERE id = v_id AND finished_at IS NULL FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        SELECT coalesce(jsonb_object_agg(state, n), '{}') INTO v_state FROM stampeded_batch_counts WHERE batch_id = v_id;
        IF v_batch.failed_at IS NULL AND v_state ?| ARRAY['discarded', 'cancelled'] THEN
            UPDATE stampeded_batches SET failed_at = clock_timestamp() WHERE id = v_id;
            PERFORM stampeded_enqueue_callback('on_failure', v_batch, v_state);
        END IF;
        CONTINUE WHEN v_batch.sealed_at IS NULL OR v_state ?| ARRAY['available', 'claimed', 'executing', 'retryable']
            OR EXISTS (SELECT FROM stampeded_batches WHERE parent_id = v_id AND finished_at IS NULL);
        v_well := NOT v_state ?| ARRAY['discarded', 'cancelled']
                  AND NOT EXISTS (SELECT FROM stampeded_batches WHERE parent_id = v_id AND NOT succeeded);
        UPDATE stampeded_batches SET finished_at = clock_timestamp(), counts = v_state, succeeded = v_well WHERE id = v_id;
        PERFORM stampeded_enqueue_callback('on_complete', v_batch, v_state);
        IF v_well THEN
            PERFORM stampeded_enqueue_callback('on_success', v_batch, v_state);
        END IF;
        RETURN NEXT v_id;
        IF v_batch.parent_id IS NOT NULL THEN
            RETURN QUERY SELECT * FROM stampeded_finish_batches(ARRAY[v_batch.parent_id]);
        END IF;
    END LOOP;
END $$;
