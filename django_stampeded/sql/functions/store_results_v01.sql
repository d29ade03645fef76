-- Keeps what jobs returned, each for its number of seconds. The arrays have one element for each job. To be called in the
-- transaction that completes them.
CREATE OR REPLACE FUNCTION stampeded_store_results(p_queues text[], p_ids uuid[], p_values jsonb[], p_seconds double precision[])
RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO stampeded_results (job_id, queue, value, expires_at)
    SELECT id, queue, value, clock_timestamp() + seconds * interval '1 second'
      FROM unnest(p_queues, p_ids, p_values, p_seconds) AS returned (queue, id, value, seconds)
    ON CONFLICT (job_id) DO UPDATE
       SET queue = excluded.queue, value = excluded.value, stored_at = clock_timestamp(), expires_at = excluded.expires_at
$$;
