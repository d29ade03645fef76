-- Enqueues a job of a schedule now, due or not, paused or not, beside its planned occurrences; returns the job, null for an
-- unknown schedule and where another job has its dedup scope. The ledger has it too.
CREATE OR REPLACE FUNCTION stampeded_run_schedule(p_key text) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_schedule stampeded_schedules;
    v_job      uuid;
BEGIN
    SELECT * INTO v_schedule FROM stampeded_schedules WHERE key = p_key FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_job := stampeded_enqueue_scheduled(v_schedule, false);
    IF v_job IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO stampeded_cron_occurrences (cron_key, occurrence_token, planned_at, job_id)
    VALUES (p_key, 'by hand ' || v_job, clock_timestamp(), v_job);
    RETURN v_job;
END $$;
