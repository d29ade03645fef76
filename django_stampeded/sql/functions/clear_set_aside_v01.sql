-- Trigger: whatever an edit changes, the reason for which the schedule was set aside is out of date.
CREATE OR REPLACE FUNCTION stampeded_clear_set_aside() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.set_aside_reason := NULL;
    RETURN NEW;
END $$;
