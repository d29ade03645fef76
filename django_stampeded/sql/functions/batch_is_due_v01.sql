-- Whether there is a callback of a batch to be seen to: its first failure, or its end. Reads its counts and locks nothing.
CREATE OR REPLACE FUNCTION stampeded_batch_is_due(p_batch stampeded_batches) RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path FROM CURRENT
AS $$
    SELECT p_batch.finished_at IS NULL
       AND (p_batch.failed_at IS NULL AND coalesce(sum(n) FILTER (WHERE state IN ('discarded', 'cancelled')), 0) > 0
            OR p_batch.sealed_at IS NOT NULL
               AND coalesce(sum(n) FILTER (WHERE state NOT IN ('completed', 'discarded', 'cancelled')), 0) = 0)
      FROM stampeded_batch_deltas WHERE batch_id = p_batch.id
$$;
