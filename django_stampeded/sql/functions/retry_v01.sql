-- Makes a job due now. A final one starts afresh: what it failed of is cleared (the ring of errors stays as its history), its
-- interruptions and deferrals begin again at 0, and it gets one attempt more where all were spent. What it said of its progress
-- and what it returned are forgotten. It doesn't take back a dedup slot that it has freed, since another job may hold that by
-- now. No row for an executing or unknown job.
CREATE OR REPLACE FUNCTION stampeded_retry(p_queue text, p_id uuid) RETURNS TABLE (was text, now_state text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    RETURN QUERY
    UPDATE stampeded_jobs j
       SET state = CASE WHEN j.state = 'retryable' THEN j.state ELSE 'available' END,
           scheduled_at = least(j.scheduled_at, clock_timestamp()),
           attempt = least(j.attempt, 32766),
           max_attempts = greatest(j.max_attempts, least(j.attempt, 32766) + 1),
           interruptions = CASE WHEN j.state IN ('available', 'retryable') THEN j.interruptions ELSE 0 END,
           deferrals = CASE WHEN j.state IN ('available', 'retryable') THEN j.deferrals ELSE 0 END,
           failure_kind = CASE WHEN j.state IN ('available', 'retryable') THEN j.failure_kind END,
           last_error = CASE WHEN j.state IN ('available', 'retryable') THEN j.last_error END,
           error_fingerprint = CASE WHEN j.state IN ('available', 'retryable') THEN j.error_fingerprint END,
           interrupted_checkpoint = CASE WHEN j.state IN ('available', 'retryable') THEN j.interrupted_checkpoint END,
           finished_at = NULL
     WHERE j.queue = p_queue AND j.id = p_id AND j.state NOT IN ('claimed', 'executing')
    RETURNING old.state, new.state;
    IF FOUND THEN
        DELETE FROM stampeded_progress WHERE job_id = p_id;
        DELETE FROM stampeded_results WHERE job_id = p_id;
        PERFORM stampeded_notify_due(p_queue);
    END IF;
END $$;
