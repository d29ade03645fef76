-- The partition made for a queue, or null where its jobs live in the DEFAULT partition.
CREATE OR REPLACE FUNCTION stampeded_partition_of(p_queue text) RETURNS regclass
LANGUAGE sql STABLE
SET search_path FROM CURRENT
RETURN (SELECT inhrelid::regclass FROM pg_inherits
         WHERE inhparent = 'stampeded_jobs'::regclass AND p_queue = ANY (stampeded_partition_queues(inhrelid)));
