-- Cancels a job that isn't final, an executing one too: its worker loses it there and then, learns that by its next touch,
-- and its result is refused. No row for a job that is final or unknown.
CREATE OR REPLACE FUNCTION stampeded_cancel(p_queue text, p_id uuid, p_reason text DEFAULT NULL)
RETURNS TABLE (was text, now_state text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_job stampeded_jobs;
BEGIN
    SELECT * INTO v_job FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND state NOT IN ('completed', 'discarded', 'cancelled')
       FOR UPDATE;
    IF FOUND THEN
        RETURN QUERY SELECT f.was, f.now_state
                       FROM stampeded_apply_failure(v_job, 'cancelled', coalesce(p_reason, 'cancelled'), NULL, NULL) f;
    END IF;
END $$;
