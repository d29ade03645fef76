-- Chooses and locks up to p_limit due jobs of a queue that tells keys apart: p_keyed by their limits, p_fair by shares of the
-- tenants, p_rooms by the breakers of their destinations. The caller holds the queue's lock.
--
-- Mostly the first jobs of the queue may all start, so under limits alone these are looked at first, in claim order. Where too
-- many of them are held back, those behind come into view, unit by unit (stampeded_choose_in_turn). A job that somebody else
-- holds locked is left out and the choice made again.
CREATE OR REPLACE FUNCTION stampeded_choose(p_queue text, p_limit bigint, p_now timestamptz, p_fair boolean, p_keyed boolean,
                                            p_rooms jsonb)
RETURNS tid[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_running jsonb := CASE WHEN p_keyed THEN stampeded_running_by_key(p_queue) || coalesce(p_rooms, '{}') ELSE p_rooms END;
    v_first   bigint := p_limit + 100;
    v_seen    bigint;
    v_chosen  uuid[];
    v_locked  uuid[];
    v_tids    tid[];
    v_skip    uuid[] := '{}';
BEGIN
    FOR i IN 1 .. 4 LOOP
        v_chosen := '{}';
        IF NOT p_fair THEN
            SELECT stampeded_fit(p_queue, p_limit, v_running, array_agg(id), array_agg(tenant_id), array_agg(destination),
                                 array_agg(limit_key)), count(*)
              INTO v_chosen, v_seen
              FROM (SELECT id, tenant_id, destination, limit_key FROM stampeded_jobs
                     WHERE queue = p_queue AND state IN ('available', 'retryable')
                       AND scheduled_at <= p_now AND attempt < max_attempts AND id <> ALL (v_skip)
                     ORDER BY priority, scheduled_at, id LIMIT v_first) first;
        END IF;
        IF cardinality(v_chosen) < p_limit AND (p_fair OR v_seen = v_first) THEN
            v_chosen := stampeded_choose_in_turn(p_queue, p_limit, p_now, p_fair, v_running, v_skip);
        END IF;
        -- By their ids: what else must hold is said so that no other index can serve it.
        SELECT coalesce(array_agg(ctid), '{}'), coalesce(array_agg(id), '{}') INTO v_tids, v_locked
          FROM (SELECT ctid, id FROM stampeded_jobs
                 WHERE queue = p_queue AND id = ANY (v_chosen)
                   AND CASE WHEN state IN ('available', 'retryable') THEN scheduled_at <= p_now AND attempt < max_attempts END
                   FOR UPDATE SKIP LOCKED) locked;
        EXIT WHEN cardinality(v_locked) = cardinality(v_chosen);
        v_skip := v_skip || ARRAY(SELECT c FROM unnest(v_chosen) c WHERE c <> ALL (v_locked));
    END LOOP;
    RETURN v_tids;
END $$;
