-- The transactions of this database that have been open so long and keep dead rows from being vacuumed, the oldest first, at
-- most ten. Of other roles' sessions only a member of pg_read_all_stats sees them.
CREATE OR REPLACE FUNCTION stampeded_long_transactions(p_older_than interval DEFAULT '5 minutes')
RETURNS TABLE (pid integer, application text, state text, age interval)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT a.pid, a.application_name, a.state, clock_timestamp() - a.xact_start
      FROM pg_stat_activity a
     WHERE a.datname = current_database() AND a.backend_type = 'client backend'
       AND a.xact_start < clock_timestamp() - p_older_than
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
     ORDER BY a.xact_start
     LIMIT 10
$$;
