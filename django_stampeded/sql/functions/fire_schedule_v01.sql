-- Fires the occurrence of a schedule that is due, once, and moves the schedule on: see stampeded_fire_occurrence.
CREATE OR REPLACE FUNCTION stampeded_fire_schedule(p_key text, p_next_run_at timestamptz) RETURNS uuid
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    SELECT stampeded_fire_occurrence(p_key, p_next_run_at, NULL)
$$;
