CREATE TRIGGER stampeded_clear_set_aside BEFORE UPDATE ON stampeded_schedules FOR EACH ROW
    WHEN (OLD.set_aside_reason IS NOT NULL AND NEW.set_aside_reason IS NOT DISTINCT FROM OLD.set_aside_reason
          -- what the queue itself writes is no edit
          AND (NEW.declared_at, NEW.last_job_id, NEW.last_run_at)
              IS NOT DISTINCT FROM (OLD.declared_at, OLD.last_job_id, OLD.last_run_at))
    EXECUTE FUNCTION stampeded_clear_set_aside();

CREATE TRIGGER stampeded_replan_edited BEFORE UPDATE ON stampeded_schedules FOR EACH ROW
    WHEN ((NEW.next_run_at, NEW.cron_expr, NEW.interval_secs, NEW.timezone, NEW.dst_policy)
          IS DISTINCT FROM (OLD.next_run_at, OLD.cron_expr, OLD.interval_secs, OLD.timezone, OLD.dst_policy))
    EXECUTE FUNCTION stampeded_replan_edited();
