-- The planner's verdicts in force: ask the queues that rush before others, and those held not at all. One older than 30
-- seconds is nobody's any more, and counts as steady as all queues that are left out here.
CREATE OR REPLACE FUNCTION stampeded_verdicts() RETURNS TABLE (queue text, verdict text)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT queue, verdict FROM stampeded_queue_policies
     WHERE verdict <> 'steady' AND decided_at > clock_timestamp() - interval '30 seconds'
$$;
