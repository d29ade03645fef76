-- The queues in which jobs wait and that aren't paused, by name. Told from the counts, so it costs the same however many jobs
-- there are; a queue whose jobs are all for later is among them.
CREATE OR REPLACE FUNCTION stampeded_queues_with_work() RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT c.queue FROM stampeded_queue_counts c
     WHERE c.state IN ('available', 'retryable') AND c.n > 0
       AND NOT EXISTS (SELECT FROM stampeded_queue_policies p WHERE p.queue IN (c.queue, '*')
                         AND p.paused_at IS NOT NULL AND (p.paused_until IS NULL OR p.paused_until > clock_timestamp()))
     GROUP BY c.queue
     ORDER BY c.queue
$$;
