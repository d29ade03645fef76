-- When the earliest job that waits in a queue is due, null where none waits. Unless p_under_limits is false, a pause and the
-- queue's rate limit count too: then it is when a claim may next bring a job, null where a pause has no end. The claim index has
-- the earliest one of each priority at hand, so this hops from one to the next and reads as many entries as there are priorities.
CREATE OR REPLACE FUNCTION stampeded_next_due(p_queue text, p_under_limits boolean DEFAULT true) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_priority smallint := -32768;
    v_due      timestamptz;
    v_first    timestamptz;
BEGIN
    LOOP
        SELECT priority, scheduled_at INTO v_priority, v_due FROM stampeded_jobs
         WHERE queue = p_queue AND state IN ('available', 'retryable') AND priority >= v_priority
         ORDER BY priority, scheduled_at, id LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_first := least(v_first, v_due);
        EXIT WHEN v_priority = 32767;
        v_priority := v_priority + 1;
    END LOOP;
    IF v_first IS NOT NULL AND p_under_limits THEN
        v_first := nullif(greatest(v_first, stampeded_blocked_until(p_queue)), 'infinity');
    END IF;
    RETURN v_first;
END $$;
