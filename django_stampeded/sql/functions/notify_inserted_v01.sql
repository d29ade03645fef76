-- Trigger: one notification per statement and queue that got due jobs.
CREATE OR REPLACE FUNCTION stampeded_notify_inserted() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (SELECT FROM stampeded_workers
                WHERE waiting AND last_heartbeat > clock_timestamp() - interval '5 minutes') THEN
        PERFORM pg_notify(stampeded_channel(), due.queue)
           FROM (SELECT DISTINCT queue FROM new_jobs
                  WHERE state IN ('available', 'retryable') AND scheduled_at <= clock_timestamp()) due;
    END IF;
    RETURN NULL;
END $$;
