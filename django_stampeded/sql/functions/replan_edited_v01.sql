-- Trigger: an edit of when a schedule runs takes effect at once, whatever wrote it, unless it says itself when the next run is.
-- An interval counts from the edit. An expression is left to the scheduler, which sees it due at a time that is no occurrence
-- of it, and plans it without firing.
CREATE OR REPLACE FUNCTION stampeded_replan_edited() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.interval_secs IS NULL THEN
        NEW.next_run_at := clock_timestamp();
    ELSIF NEW.interval_secs IS DISTINCT FROM OLD.interval_secs THEN
        NEW.next_run_at := clock_timestamp() + make_interval(secs => NEW.interval_secs);
    END IF;
    RETURN NEW;
END $$;
