-- Says on the channel that a queue has due work, if anybody may be waiting for that. NOTIFY takes a lock on the whole
-- database at commit, so it is left out while every live worker has said that it is busy: each of them looks again before
-- it waits. A worker that never says anything keeps the column's default and counts as waiting.
CREATE OR REPLACE FUNCTION stampeded_notify_due(p_queue text) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM stampeded_workers
                WHERE waiting AND last_heartbeat > clock_timestamp() - interval '5 minutes') THEN
        PERFORM pg_notify(stampeded_channel(), p_queue);
    END IF;
END $$;
