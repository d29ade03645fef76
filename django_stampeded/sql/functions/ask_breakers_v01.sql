-- Asks for tasks that have a breaker of their own, before so many of their claimed jobs start: a claim tells destinations apart
-- by an index and lets nothing through that their breakers hold back, but not tasks. Returns those whose breaker isn't closed,
-- how many of the jobs may start as probes, and in how many seconds others may.
CREATE OR REPLACE FUNCTION stampeded_ask_breakers(p_tasks text[], p_numbers bigint[])
RETURNS TABLE (task text, allowed bigint, retry_in float8)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_breaker stampeded_breakers;
BEGIN
    FOR task, allowed IN
        SELECT a.task, a.number FROM unnest(p_tasks, p_numbers) AS a (task, number)
          JOIN stampeded_breakers b ON b.kind = 'task' AND b.key = a.task AND b.state <> 'closed' ORDER BY a.task
    LOOP
        SELECT * INTO v_breaker FROM stampeded_breakers WHERE kind = 'task' AND key = task FOR UPDATE;
        CONTINUE WHEN v_breaker.state = 'closed';
        IF v_breaker.retry_at <= clock_timestamp() THEN
            allowed := least(allowed, CASE WHEN v_breaker.state = 'half_open' AND v_breaker.successes > 0 THEN 1
                                      ELSE v_breaker.probes END);
            UPDATE stampeded_breakers
               SET state = 'half_open', successes = CASE WHEN state = 'open' THEN 0 ELSE successes END,
                   retry_at = clock_timestamp() + interval '1 second' * wait_secs, updated_at = clock_timestamp()
             WHERE kind = 'task' AND key = task RETURNING retry_at INTO v_breaker.retry_at;
        ELSE
            allowed := 0;
        END IF;
        retry_in := extract(epoch FROM v_breaker.retry_at - clock_timestamp());
        RETURN NEXT;
    END LOOP;
END $$;
