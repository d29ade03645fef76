-- How many starts a rate limit still allows at a moment: any window of that length holds at most p_rate_limit. A start is taken
-- down later than it is made and judged earlier, so no rounding lets one more in.
CREATE OR REPLACE FUNCTION stampeded_rate_room(p_queue text, p_scope text, p_value text, p_rate_limit bigint,
                                               p_period_secs bigint, p_at timestamptz) RETURNS bigint
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH since AS (SELECT p_at - p_period_secs * interval '1 second' AS moment)
    SELECT greatest(p_rate_limit - coalesce(
               (SELECT s.total FROM stampeded_starts s, since
                 WHERE s.queue = p_queue AND s.scope = p_scope AND s.value = p_value AND s.started_at >= since.moment
                 ORDER BY s.started_at DESC LIMIT 1)
               - (SELECT s.total - s.n FROM stampeded_starts s, since
                   WHERE s.queue = p_queue AND s.scope = p_scope AND s.value = p_value AND s.started_at >= since.moment
                   ORDER BY s.started_at LIMIT 1), 0), 0)
$$;
