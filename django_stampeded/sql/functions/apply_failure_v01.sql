-- The one place that decides what a failure means. The caller holds the row's lock and has checked who may report.
--
--   raised, timed_out                            an attempt is spent: discarded when it was the last, else retried
--   heartbeat_lost, worker_exited, worker_missing  the worker died: a budget of their own (interruptions). Deaths add up only
--                                                while the job gets no further, judged by the content of its checkpoint: a
--                                                job that starts over and dies at the same point gets nowhere either
--   breaker_open, throttled                      declined: the attempt is given back, deferrals count
--   unrecoverable                                discarded;   cancelled: cancelled
--
-- A null delay means back-off by the count of what went wrong; 0 means at once. Counters stop at the largest smallint
-- instead of failing. A final state frees the dedup slot; discarded leaves a dead letter where the job names a queue for it.
CREATE OR REPLACE FUNCTION stampeded_apply_failure(p_job stampeded_jobs, p_kind text, p_error text,
                                                   p_retry_delay_ms bigint, p_exit_status bigint)
RETURNS TABLE (was text, now_state text, dead_lettered boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_now         timestamptz := clock_timestamp();
    v_error       text := left(coalesce(p_error, p_kind), 4000);
    v_death       boolean := p_kind IN ('heartbeat_lost', 'worker_exited', 'worker_missing');
    v_refusal     boolean := p_kind IN ('breaker_open', 'throttled');
    v_attempt     integer := p_job.attempt;
    v_deaths      integer := p_job.interruptions;
    v_deferrals   integer := p_job.deferrals;
    v_checkpoint  bytea := sha256(convert_to(p_job.checkpoint::text, 'UTF8'));
    v_count       integer;              -- of what this kind of failure counts; it drives the back-off
    v_state       text := 'retryable';
    v_delay_ms    bigint;
    v_entry       jsonb;
    v_lettered    boolean := false;
BEGIN
    IF v_death THEN
        v_deaths := CASE WHEN p_job.interrupted_checkpoint IS NOT DISTINCT FROM v_checkpoint THEN v_deaths ELSE 0 END + 1;
        v_count := v_deaths;
        IF v_deaths > p_job.max_interruptions OR v_attempt >= p_job.max_attempts THEN v_state := 'discarded'; END IF;
    ELSIF v_refusal THEN
        v_attempt := greatest(v_attempt - 1, 0);
        v_deferrals := v_deferrals + 1;
        v_count := v_deferrals;
        IF v_deferrals > p_job.max_deferrals THEN v_state := 'discarded'; END IF;
    ELSE
        v_count := v_attempt;
        IF p_kind = 'cancelled' THEN v_state := 'cancelled';
        ELSIF p_kind = 'unrecoverable' OR v_attempt >= p_job.max_attempts THEN v_state := 'discarded'; END IF;
    END IF;
    v_delay_ms := least(greatest(
        coalesce(p_retry_delay_ms, stampeded_backoff_ms(v_count, p_job.backoff_base_ms, p_job.backoff_max_ms)), 0), 315360000000);
    v_entry := stampeded_failure_entry(p_job, v_now, p_kind, v_error, p_exit_status);

    IF v_state = 'discarded' AND p_job.dead_letter_queue IS NOT NULL THEN
        BEGIN
            INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority, destination, max_attempts, expire_seconds,
                                        backoff_base_ms, backoff_max_ms, limit_key, source_id, source_queue, source_attempts)
            VALUES (p_job.dead_letter_queue, p_job.task, p_job.args, p_job.meta, p_job.tenant_id, p_job.priority,
                    p_job.destination, p_job.max_attempts, p_job.expire_seconds, p_job.backoff_base_ms, p_job.backoff_max_ms,
                    p_job.limit_key, p_job.id, p_job.queue, v_attempt);
            v_lettered := true;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'job % is discarded without its dead letter in queue %: %',
                p_job.id, quote_literal(p_job.dead_letter_queue), SQLERRM;
            v_entry := v_entry || jsonb_build_object('dead_letter_error', left(SQLERRM, 1000));
        END;
    END IF;

    INSERT INTO stampeded_tallies (queue, what, n) VALUES (p_job.queue, p_kind, 1);
    UPDATE stampeded_jobs j
       SET state = v_state,
           attempt = v_attempt,
           interruptions = least(v_deaths, 32767),
           interrupted_checkpoint = CASE WHEN v_death THEN v_checkpoint ELSE j.interrupted_checkpoint END,
           deferrals = least(v_deferrals, 32767),
           scheduled_at = CASE WHEN v_state = 'retryable' THEN v_now + v_delay_ms * interval '1 millisecond' ELSE j.scheduled_at END,
           finished_at = CASE WHEN v_state <> 'retryable' THEN v_now END,
           dedup_scope = CASE WHEN v_state = 'retryable' THEN j.dedup_scope END,
           claimed_by = NULL,
           failure_kind = p_kind,
           last_error = CASE WHEN v_refusal THEN j.last_error ELSE v_error END,
           error_fingerprint = CASE WHEN v_refusal THEN j.error_fingerprint ELSE stampeded_fingerprint(v_error) END,
           errors = stampeded_push_error(j.errors, v_entry)
     WHERE j.queue = p_job.queue AND j.id = p_job.id;
    IF v_state = 'retryable' AND v_delay_ms = 0 THEN
        PERFORM stampeded_notify_due(p_job.queue);
    END IF;
    RETURN QUERY SELECT p_job.state, v_state, v_lettered;
END $$;
