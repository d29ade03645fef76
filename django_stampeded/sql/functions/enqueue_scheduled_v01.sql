-- Writes a job of a schedule and notes it there; returns its id, null where another job has its dedup scope. The schedule's
-- jitter delays it by a time picked at random.
CREATE OR REPLACE FUNCTION stampeded_enqueue_scheduled(p_schedule stampeded_schedules, p_jitter boolean) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_job     uuid;
    v_options jsonb := p_schedule.options;
BEGIN
    -- What the options leave out is as the columns' defaults have it.
    INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority, scheduled_at, destination, dead_letter_queue,
                                max_attempts, max_interruptions, max_deferrals, expire_seconds, backoff_base_ms, backoff_max_ms,
                                dedup_scope, dedup_period, limit_key)
    VALUES (p_schedule.queue, p_schedule.task, p_schedule.args, p_schedule.meta, p_schedule.tenant_id, p_schedule.priority,
            CASE WHEN p_jitter AND p_schedule.jitter_secs > 0
                 THEN clock_timestamp() + make_interval(secs => random() * p_schedule.jitter_secs) ELSE now() END,
            v_options ->> 'destination', v_options ->> 'dead_letter_queue',
            coalesce((v_options ->> 'max_attempts')::smallint, 25),
            coalesce((v_options ->> 'max_interruptions')::smallint, 1),
            coalesce((v_options ->> 'max_deferrals')::smallint, 100),
            coalesce((v_options ->> 'expire_seconds')::integer, 3600),
            coalesce((v_options ->> 'backoff_base_ms')::smallint, 1000),
            coalesce((v_options ->> 'backoff_max_ms')::integer, 3600000),
            v_options ->> 'dedup_scope', v_options ->> 'dedup_period', v_options ->> 'limit_key')
    ON CONFLICT (queue, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
    RETURNING id INTO v_job;
    IF v_job IS NOT NULL THEN
        UPDATE stampeded_schedules SET last_job_id = v_job, last_run_at = clock_timestamp() WHERE key = p_schedule.key;
    END IF;
    RETURN v_job;
END $$;
