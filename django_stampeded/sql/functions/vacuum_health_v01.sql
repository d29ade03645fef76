-- How far each partition is from the point at which autovacuum comes to it, by PostgreSQL 18's own formula: the partition's
-- setting, else the server's, and never more than autovacuum_vacuum_max_threshold.
CREATE OR REPLACE FUNCTION stampeded_vacuum_health()
RETURNS TABLE (relname text, live_tuples bigint, dead_tuples bigint, dead_ratio double precision, autovac_threshold bigint,
               needs_vacuum boolean, last_autovacuum timestamptz)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH partitions AS (
        SELECT c.oid, c.relname::text, greatest(c.reltuples, 0) AS reltuples, coalesce(c.reloptions, '{}') AS reloptions
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'stampeded_jobs'::regclass
    ), settings AS (
        SELECT p.*,
               coalesce((SELECT option_value FROM pg_options_to_table(p.reloptions) WHERE option_name = 'autovacuum_vacuum_threshold'),
                        current_setting('autovacuum_vacuum_threshold'))::float8 AS base,
               coalesce((SELECT option_value FROM pg_options_to_table(p.reloptions) WHERE option_name = 'autovacuum_vacuum_scale_factor'),
                        current_setting('autovacuum_vacuum_scale_factor'))::float8 AS factor,
               coalesce((SELECT option_value FROM pg_options_to_table(p.reloptions) WHERE option_name = 'autovacuum_vacuum_max_threshold'),
                        current_setting('autovacuum_vacuum_max_threshold'))::float8 AS ceiling
          FROM partitions p
    ), thresholds AS (
        SELECT *, (CASE WHEN ceiling < 0 THEN base + factor * reltuples
                   ELSE least(base + factor * reltuples, ceiling) END)::bigint AS threshold
          FROM settings
    )
    SELECT t.relname, pg_stat_get_live_tuples(t.oid), pg_stat_get_dead_tuples(t.oid),
           coalesce(pg_stat_get_dead_tuples(t.oid)::float8
                    / nullif(pg_stat_get_live_tuples(t.oid) + pg_stat_get_dead_tuples(t.oid), 0), 0),
           t.threshold, pg_stat_get_dead_tuples(t.oid) > t.threshold, pg_stat_get_last_autovacuum_time(t.oid)
      FROM thresholds t
     ORDER BY t.relname
$$;
