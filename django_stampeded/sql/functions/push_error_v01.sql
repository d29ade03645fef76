-- Adds a failure to a job's ring of errors, newest last, which keeps the last ten. All refusals (breaker_open, throttled)
-- share one entry with their count, beyond the ten, so that a job that was turned away often still shows why it failed.
CREATE OR REPLACE FUNCTION stampeded_push_error(p_errors jsonb, p_entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
AS $$
    WITH entries AS (
        SELECT e, ord, coalesce(e->>'kind' IN ('breaker_open', 'throttled'), false) AS refusal
          FROM jsonb_array_elements(p_errors) WITH ORDINALITY AS t(e, ord)
        UNION ALL
        SELECT CASE WHEN p_entry->>'kind' IN ('breaker_open', 'throttled')
               THEN p_entry || jsonb_build_object('count', 1 + coalesce(
                    (SELECT sum(CASE WHEN jsonb_typeof(e->'count') = 'number' THEN (e->>'count')::numeric ELSE 1 END)
                       FROM jsonb_array_elements(p_errors) e WHERE e->>'kind' IN ('breaker_open', 'throttled')), 0))
               ELSE p_entry END,
               1 + jsonb_array_length(p_errors), p_entry->>'kind' IN ('breaker_open', 'throttled')
    ), ranked AS (
        SELECT e, ord, row_number() OVER (PARTITION BY refusal ORDER BY ord DESC) <= CASE WHEN refusal THEN 1 ELSE 10 END AS kept
          FROM entries
    )
    SELECT coalesce(jsonb_agg(e ORDER BY ord) FILTER (WHERE kept), '[]') FROM ranked
$$;
