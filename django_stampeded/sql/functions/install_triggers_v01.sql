-- Gives a jobs table (the parent or a partition) the triggers that notify and count. PostgreSQL fires statement triggers only
-- on the table that a statement names, so each partition needs its own for jobs that are written straight into it.
CREATE OR REPLACE FUNCTION stampeded_install_triggers(p_table regclass) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER stampeded_notify AFTER INSERT ON %s REFERENCING NEW TABLE AS new_jobs '
                   'FOR EACH STATEMENT EXECUTE FUNCTION stampeded_notify_inserted()', p_table);
    EXECUTE format('CREATE TRIGGER stampeded_count_insert AFTER INSERT ON %s REFERENCING NEW TABLE AS new_jobs '
                   'FOR EACH STATEMENT EXECUTE FUNCTION stampeded_count_changes()', p_table);
    EXECUTE format('CREATE TRIGGER stampeded_count_update AFTER UPDATE ON %s REFERENCING OLD TABLE AS old_jobs '
                   'NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION stampeded_count_changes()', p_table);
    EXECUTE format('CREATE TRIGGER stampeded_count_delete AFTER DELETE ON %s REFERENCING OLD TABLE AS old_jobs '
                   'FOR EACH STATEMENT EXECUTE FUNCTION stampeded_count_changes()', p_table);
    EXECUTE format('CREATE TRIGGER stampeded_count_truncate AFTER TRUNCATE ON %s '
                   'FOR EACH STATEMENT EXECUTE FUNCTION stampeded_count_changes()', p_table);
END $$;
