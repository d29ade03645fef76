-- Notes how far many jobs of one worker are; returns those for which it did. The arrays have one element for each job, which
-- none may have twice. A report counts while nobody has claimed the job since that attempt, which has perhaps just ended: the
-- last report comes after it. The job's row is read and not locked, for the job's own transaction may hold it.
-- The worker's heartbeat calls this, so it gives up soon where somebody is just deleting the row.
CREATE OR REPLACE FUNCTION stampeded_progress_many(p_worker_id uuid, p_queues text[], p_ids uuid[], p_attempts bigint[],
                                                   p_done bigint[], p_totals bigint[], p_messages text[])
RETURNS TABLE (id uuid)
LANGUAGE sql ROWS 100
SET search_path FROM CURRENT
SET lock_timeout = '500ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_nestloop = on
SET plan_cache_mode = force_custom_plan
AS $$
    INSERT INTO stampeded_progress AS p (job_id, attempt, done, total, message, updated_at)
    SELECT j.id, j.attempt, told.done, told.total, left(coalesce(told.message, ''), 255), clock_timestamp()
      FROM unnest(p_queues, p_ids, p_attempts, p_done, p_totals, p_messages) AS told (queue, id, attempt, done, total, message),
           stampeded_jobs j
     WHERE j.queue = told.queue AND j.id = told.id AND j.id = ANY (p_ids) AND j.attempt = told.attempt
       AND j.queue = ANY (p_queues)    -- so that the planner leaves the partitions of others alone
       AND j.state <> 'available'
       AND CASE WHEN j.claimed_by IS NOT NULL THEN j.claimed_by = p_worker_id
                ELSE j.attempted_by[cardinality(j.attempted_by)] = p_worker_id::text END
     ORDER BY j.id
    ON CONFLICT (job_id) DO UPDATE
       SET attempt = excluded.attempt, done = excluded.done, total = excluded.total, message = excluded.message,
           updated_at = excluded.updated_at
    RETURNING p.job_id
$$;
