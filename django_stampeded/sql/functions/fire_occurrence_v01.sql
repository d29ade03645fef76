-- Fires the occurrence of a schedule that is due and moves the schedule on, in the caller's transaction; returns the job, or
-- null where there is nothing to fire: not due, paused, unknown, fired before, or (as the ledger then says) another job has
-- the dedup scope of its jobs, or its overlap_policy is 'skip' and the job of the last occurrence isn't final yet.
--
-- The ledger's unique token makes an occurrence fire once. A scheduler that computes next runs by its own time zone data gives
-- the token by them too, for where the server's are older or newer it might take two occurrences for one; a null p_token is
-- made here (stampeded_occurrence_token). A null p_next_run_at means never again. A schedule that can't fire (its time zone is
-- unknown, its job is refused) is set aside with the reason, so that it stops no other.
CREATE OR REPLACE FUNCTION stampeded_fire_occurrence(p_key text, p_next_run_at timestamptz, p_token text) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_schedule   stampeded_schedules;
    v_overlaps   boolean;
    v_occurrence bigint;
    v_job        uuid;
BEGIN
    SELECT * INTO v_schedule FROM stampeded_schedules
     WHERE key = p_key AND NOT paused AND next_run_at <= clock_timestamp()
       FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_overlaps := v_schedule.overlap_policy = 'skip' AND EXISTS (
        SELECT FROM stampeded_jobs
         WHERE id = v_schedule.last_job_id AND state IN ('available', 'claimed', 'executing', 'retryable'));
    BEGIN
        INSERT INTO stampeded_cron_occurrences (cron_key, occurrence_token, planned_at, skipped)
        VALUES (p_key, coalesce(p_token, stampeded_occurrence_token(v_schedule)), v_schedule.next_run_at,
                CASE WHEN v_overlaps THEN format('overlap: job %s of the last run was not final yet', v_schedule.last_job_id) END)
        ON CONFLICT (cron_key, occurrence_token) DO NOTHING
        RETURNING id INTO v_occurrence;
        IF v_occurrence IS NOT NULL AND NOT v_overlaps THEN
            v_job := stampeded_enqueue_scheduled(v_schedule, true);
            UPDATE stampeded_cron_occurrences
               SET job_id = v_job, skipped = CASE WHEN v_job IS NULL THEN 'duplicate: another job has its dedup scope' END
             WHERE id = v_occurrence;
        END IF;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
        RAISE WARNING 'schedule % is set aside: %', quote_literal(p_key), SQLERRM;
        PERFORM stampeded_set_aside_schedule(p_key, SQLERRM);
        RETURN NULL;
    END;
    IF p_next_run_at IS NULL THEN
        PERFORM stampeded_set_aside_schedule(p_key, 'it has no next occurrence');
    ELSE
        UPDATE stampeded_schedules SET next_run_at = p_next_run_at WHERE key = p_key;
    END IF;
    RETURN v_job;
END $$;
