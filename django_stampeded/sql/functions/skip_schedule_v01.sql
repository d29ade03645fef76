-- Moves a due schedule on without a job, and says why in the ledger; returns whether there was anything to skip (it was due,
-- not paused, and had not been fired). The parameters are those of stampeded_fire_occurrence.
CREATE OR REPLACE FUNCTION stampeded_skip_schedule(p_key text, p_next_run_at timestamptz, p_reason text, p_token text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_schedule   stampeded_schedules;
    v_occurrence bigint;
BEGIN
    SELECT * INTO v_schedule FROM stampeded_schedules
     WHERE key = p_key AND NOT paused AND next_run_at <= clock_timestamp()
       FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO stampeded_cron_occurrences (cron_key, occurrence_token, planned_at, skipped)
    VALUES (p_key, coalesce(p_token, stampeded_occurrence_token(v_schedule)), v_schedule.next_run_at, coalesce(p_reason, 'skipped'))
    ON CONFLICT (cron_key, occurrence_token) DO NOTHING
    RETURNING id INTO v_occurrence;
    IF p_next_run_at IS NULL THEN
        PERFORM stampeded_set_aside_schedule(p_key, 'it has no next occurrence');
    ELSE
        UPDATE stampeded_schedules SET next_run_at = p_next_run_at WHERE key = p_key;
    END IF;
    RETURN v_occurrence IS NOT NULL;
END $$;
