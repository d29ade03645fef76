-- Deletes finished jobs, at most p_limit in all; returns how many. Completed ones go by p_older_than, discarded and cancelled
-- ones by p_failed_older_than, unless their queue's policy says how long it keeps them. A job that holds the slot of a period
-- stays until its bucket has ended, one of a batch until the batch has, one that others depend on until these have heard of its
-- end. What jobs said of their progress goes with them.
--
-- Each queue with an age of its own has its turn first, then all others together: the partitions of the former are left out of
-- that by the planner, so nobody reads over what they keep longer.
CREATE OR REPLACE FUNCTION stampeded_prune(p_older_than interval DEFAULT '1 hour', p_limit bigint DEFAULT 10000,
                                           p_failed_older_than interval DEFAULT '7 days') RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_left   bigint := p_limit;
    v_policy record;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR v_policy IN
        SELECT kept.state, kept.queue, kept.secs * interval '1 second' AS age
          FROM (SELECT k.state, p.queue, k.secs FROM stampeded_queue_policies p,
                       LATERAL (VALUES ('completed', p.keep_completed_secs), ('discarded', p.keep_discarded_secs),
                                       ('cancelled', p.keep_cancelled_secs)) k (state, secs)
                 WHERE k.secs IS NOT NULL) kept
         ORDER BY random()                     -- under more than p_limit can do, none is always the last
    LOOP
        EXIT WHEN v_left <= 0;
        v_left := v_left - stampeded_prune_state(v_policy.state, v_policy.age, v_left, ARRAY[v_policy.queue], false);
    END LOOP;
    FOR v_policy IN
        SELECT k.state, k.age, ARRAY(SELECT p.queue FROM stampeded_queue_policies p
                                      WHERE CASE k.state WHEN 'completed' THEN p.keep_completed_secs
                                            WHEN 'discarded' THEN p.keep_discarded_secs ELSE p.keep_cancelled_secs END IS NOT NULL) AS own
          FROM (VALUES ('completed', p_older_than), ('discarded', p_failed_older_than), ('cancelled', p_failed_older_than)) k (state, age)
    LOOP
        EXIT WHEN v_left <= 0;
        v_left := v_left - stampeded_prune_state(v_policy.state, v_policy.age, v_left, v_policy.own, true);
    END LOOP;
    RETURN p_limit - v_left;
END $$;
