-- The schedules that are due and not paused, locked for the caller's transaction; those that another scheduler holds are left
-- to it.
CREATE OR REPLACE FUNCTION stampeded_claim_due_schedules(p_limit bigint DEFAULT 100) RETURNS SETOF stampeded_schedules
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    SELECT * FROM stampeded_schedules
     WHERE NOT paused AND next_run_at <= clock_timestamp()
     ORDER BY next_run_at, key
     LIMIT p_limit FOR UPDATE SKIP LOCKED;
END $$;
