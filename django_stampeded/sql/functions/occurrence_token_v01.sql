-- What the occurrence that a schedule plans next is known by in the ledger. A wall-clock expression is known by its local
-- minute, so that a repeated local hour fires once; everything else by its instant (a wall-clock interval shorter than a
-- minute would else lose occurrences).
CREATE OR REPLACE FUNCTION stampeded_occurrence_token(p_schedule stampeded_schedules) RETURNS text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT CASE WHEN p_schedule.dst_policy = 'wall_clock' AND p_schedule.cron_expr IS NOT NULL
           THEN to_char(p_schedule.next_run_at AT TIME ZONE p_schedule.timezone, 'YYYY-MM-DD HH24:MI')
           ELSE floor(extract(epoch FROM p_schedule.next_run_at))::bigint::text END
$$;
