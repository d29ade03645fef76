-- Trigger: an edit of when a schedule runs takes effect at once, whatever wrote it, unless it says itself when the next run is.
-- An interval counts from the edit. An expression is for the scheduler to understand, so the schedule is made due with the
-- mark that it is only to be planned.
CREATE OR REPLACE FUNCTION stampeded_replan_edited() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.next_run_at IS DISTINCT FROM OLD.next_run_at THEN
        NEW.replan := false;
    ELSIF NEW.interval_secs IS NULL THEN
        NEW.next_run_at := clock_timestamp();
        NEW.replan := true;
    ELSIF NEW.interval_secs IS DISTINCT FROM OLD.interval_secs THEN
        NEW.next_run_at := clock_timestamp() + make_interval(secs => NEW.interval_secs);
        NEW.replan := false;
    END IF;
    RETURN NEW;
END $$;
