-- A worker's sign of life.
CREATE OR REPLACE FUNCTION stampeded_heartbeat(p_worker_id uuid) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    UPDATE stampeded_workers SET last_heartbeat = clock_timestamp() WHERE id = p_worker_id
$$;
