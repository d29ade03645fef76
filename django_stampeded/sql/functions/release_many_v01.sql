-- Undoes many claims of one worker; returns those that were still its own. The three arrays have one element for each job.
CREATE OR REPLACE FUNCTION stampeded_release_many(p_worker_id uuid, p_queues text[], p_ids uuid[], p_attempts bigint[])
RETURNS TABLE (queue text, id uuid)
LANGUAGE sql ROWS 100
SET search_path FROM CURRENT
AS $$
    SELECT held.queue, held.id
      FROM unnest(p_queues, p_ids, p_attempts) AS held(queue, id, attempt),
           LATERAL stampeded_release(held.queue, held.id, p_worker_id, held.attempt)
$$;
