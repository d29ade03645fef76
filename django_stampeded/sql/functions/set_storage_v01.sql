-- Storage settings for a table whose every row is updated twice and then deleted: room on each page for the next versions,
-- and a vacuum that doesn't wait for a share of a large table. Partitions do not inherit them.
CREATE OR REPLACE FUNCTION stampeded_set_storage(p_table regclass) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, '
                   'autovacuum_vacuum_threshold = 500, autovacuum_vacuum_insert_scale_factor = 0.1, '
                   'autovacuum_analyze_scale_factor = 0.05)', p_table);
END $$;
