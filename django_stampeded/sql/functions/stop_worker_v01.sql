-- Asks a worker to stop: it reads so at its next heartbeat, claims no more and ends when its jobs have. False for one that is
-- not on record. A worker in another language obeys if it looks at its row.
CREATE OR REPLACE FUNCTION stampeded_stop_worker(p_worker_id uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE stampeded_workers SET stop_requested_at = coalesce(stop_requested_at, clock_timestamp()) WHERE id = p_worker_id;
    RETURN FOUND;
END $$;
