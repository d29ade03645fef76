CREATE TRIGGER stampeded_clear_set_aside BEFORE UPDATE ON stampeded_schedules FOR EACH ROW
    WHEN (OLD.set_aside_reason IS NOT NULL AND NEW.set_aside_reason IS NOT DISTINCT FROM OLD.set_aside_reason)
    EXECUTE FUNCTION stampeded_clear_set_aside();
