-- A failure as a job's ring of errors has it (stampeded_push_error): for a job that was running also where that attempt ran and
-- for how long since its claim, so that workers of every language have it on record. Where the message cuts the error short, the
-- lines that follow its first one are kept beside it, for each attempt.
CREATE OR REPLACE FUNCTION stampeded_failure_entry(p_job stampeded_jobs, p_at timestamptz, p_kind text, p_error text,
                                                   p_exit_status bigint DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_entry jsonb := jsonb_build_object('at', p_at, 'attempt', p_job.attempt, 'kind', p_kind, 'message', left(p_error, 1000),
                                        'destination', p_job.destination, 'exit_status', p_exit_status);
BEGIN
    IF p_job.state IN ('claimed', 'executing') THEN
        v_entry := v_entry || jsonb_build_object(
            'worker', p_job.claimed_by,
            'node', (SELECT hostname FROM stampeded_workers WHERE id = p_job.claimed_by),
            'duration_s', round(extract(epoch FROM greatest(p_at - p_job.claimed_at, interval '0')), 3));
    END IF;
    IF char_length(p_error) > 1000 AND p_kind NOT IN ('breaker_open', 'throttled') AND strpos(p_error, E'\n') > 0 THEN
        v_entry := v_entry || jsonb_build_object('trace', left(substr(p_error, strpos(p_error, E'\n') + 1), 2000));
    END IF;
    RETURN v_entry;
END $$;
