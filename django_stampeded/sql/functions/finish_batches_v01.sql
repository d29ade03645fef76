-- Enqueues the callbacks of batches that have come so far, of all open ones or of those named; returns the batches that are
-- through now.
--
-- Whoever completes a batch's jobs calls this after its commit, and maintenance each second. Of two transactions that end the
-- last two jobs at once neither sees the other's end, so no trigger could tell that a batch is through; the one that looks
-- after the later commit can. The row's lock makes the callback one, and it is taken only when the counts say that it is worth
-- it, so that the jobs of a batch don't queue up behind it. A batch that somebody is adding to, or looks at, is left to the
-- next look.
CREATE OR REPLACE FUNCTION stampeded_finish_batches(p_ids uuid[] DEFAULT NULL) RETURNS SETOF uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_id    uuid;
    v_batch stampeded_batches;
    v_state jsonb;
    v_ids   uuid[];
BEGIN
    SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO v_ids FROM stampeded_batches
     WHERE finished_at IS NULL AND (p_ids IS NULL OR id = ANY (p_ids));
    FOREACH v_id IN ARRAY v_ids LOOP
        SELECT * INTO v_batch FROM stampeded_batches WHERE id = v_id;
        CONTINUE WHEN NOT stampeded_batch_is_due(v_batch);
        SELECT * INTO v_batch FROM stampeded_batches WHERE id = v_id AND finished_at IS NULL FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR NOT stampeded_batch_is_due(v_batch);
        SELECT coalesce(jsonb_object_agg(state, n), '{}') INTO v_state FROM stampeded_batch_counts WHERE batch_id = v_id;
        IF v_batch.failed_at IS NULL AND v_state ?| ARRAY['discarded', 'cancelled'] THEN
            UPDATE stampeded_batches SET failed_at = clock_timestamp() WHERE id = v_id RETURNING * INTO v_batch;
            IF v_batch.on_failure IS NOT NULL THEN
                PERFORM stampeded_enqueue_callback(v_batch.on_failure, v_batch, v_state);
            END IF;
        END IF;
        IF v_batch.sealed_at IS NOT NULL AND NOT v_state ?| ARRAY['available', 'claimed', 'executing', 'retryable']
           AND NOT EXISTS (SELECT FROM stampeded_batches WHERE parent_id = v_id AND finished_at IS NULL) THEN
            UPDATE stampeded_batches SET finished_at = clock_timestamp(), counts = v_state WHERE id = v_id;
            IF v_batch.on_complete IS NOT NULL THEN
                PERFORM stampeded_enqueue_callback(v_batch.on_complete, v_batch, v_state);
            END IF;
            IF v_batch.on_success IS NOT NULL AND v_batch.failed_at IS NULL
               AND NOT EXISTS (SELECT FROM stampeded_batches WHERE parent_id = v_id AND failed_at IS NOT NULL) THEN
                PERFORM stampeded_enqueue_callback(v_batch.on_success, v_batch, v_state);
            END IF;
            RETURN NEXT v_id;
            IF v_batch.parent_id IS NOT NULL THEN
                RETURN QUERY SELECT * FROM stampeded_finish_batches(ARRAY[v_batch.parent_id]);
            END IF;
        END IF;
    END LOOP;
END $$;
