-- Fires the occurrence of a schedule that is due and moves the schedule on, in the caller's transaction; returns the job, or
-- null where there is nothing to fire: not due, paused, unknown, or fired before.
--
-- The ledger's unique token makes an occurrence fire once, whoever computed it. A wall-clock expression is known by its local
-- minute, so that a repeated local hour fires once; everything else by its instant (a wall-clock interval shorter than a
-- minute would else lose occurrences). A null p_next_run_at means never again. A schedule that can't fire (its time zone is
-- unknown, its job is refused) is set aside with the reason, so that it stops no other.
CREATE OR REPLACE FUNCTION stampeded_fire_schedule(p_key text, p_next_run_at timestamptz) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_schedule   stampeded_schedules;
    v_occurrence bigint;
    v_job        uuid;
BEGIN
    SELECT * INTO v_schedule FROM stampeded_schedules
     WHERE key = p_key AND NOT paused AND next_run_at <= clock_timestamp()
       FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    BEGIN
        INSERT INTO stampeded_cron_occurrences (cron_key, occurrence_token)
        VALUES (p_key, CASE WHEN v_schedule.dst_policy = 'wall_clock' AND v_schedule.cron_expr IS NOT NULL
                       THEN to_char(v_schedule.next_run_at AT TIME ZONE v_schedule.timezone, 'YYYY-MM-DD HH24:MI')
                       ELSE floor(extract(epoch FROM v_schedule.next_run_at))::bigint::text END)
        ON CONFLICT (cron_key, occurrence_token) DO NOTHING
        RETURNING id INTO v_occurrence;
        IF v_occurrence IS NOT NULL THEN
            INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority)
            VALUES (v_schedule.queue, v_schedule.task, v_schedule.args, v_schedule.meta, v_schedule.tenant_id, v_schedule.priority)
            RETURNING id INTO v_job;
            UPDATE stampeded_cron_occurrences SET job_id = v_job WHERE id = v_occurrence;
        END IF;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
        RAISE WARNING 'schedule % is set aside: %', quote_literal(p_key), SQLERRM;
        PERFORM stampeded_set_aside_schedule(p_key, SQLERRM);
        RETURN NULL;
    END;
    UPDATE stampeded_schedules
       SET last_run_at = CASE WHEN v_job IS NULL THEN last_run_at ELSE clock_timestamp() END,
           next_run_at = coalesce(p_next_run_at, next_run_at)
     WHERE key = p_key;
    IF p_next_run_at IS NULL THEN
        PERFORM stampeded_set_aside_schedule(p_key, 'it has no next occurrence');
    END IF;
    RETURN v_job;
END $$;
