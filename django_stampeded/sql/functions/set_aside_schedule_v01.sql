-- Pauses a schedule that can't fire, with the reason; an edit clears the reason (stampeded_clear_set_aside).
CREATE OR REPLACE FUNCTION stampeded_set_aside_schedule(p_key text, p_reason text) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    UPDATE stampeded_schedules SET paused = true, set_aside_reason = p_reason WHERE key = p_key
$$;
