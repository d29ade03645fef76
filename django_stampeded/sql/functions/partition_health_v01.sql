-- The partitions, one row for each queue they hold (null for the DEFAULT partition), and whether they have the triggers that
-- notify and count.
CREATE OR REPLACE FUNCTION stampeded_partition_health()
RETURNS TABLE (partition text, queue text, has_notify boolean, has_counts boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT c.relname::text, held.queue,
           EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = 'stampeded_notify' AND t.tgenabled <> 'D'),
           (SELECT count(*) = 4 FROM pg_trigger t
             WHERE t.tgrelid = c.oid AND t.tgname LIKE 'stampeded\_count\_%' AND t.tgenabled <> 'D')
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      LEFT JOIN LATERAL unnest(stampeded_partition_queues(c.oid)) AS held(queue) ON true
     WHERE i.inhparent = 'stampeded_jobs'::regclass
     ORDER BY 1, 2
$$;
