-- Reports how jobs of a destination, or of a task where they have none, ended: so many failures and successes since the last
-- report, from one queue. Returns the state before and after, and in how many seconds the next probes may start.
--
-- Successes alone are worth writing only while the breaker is half open: one that is closed costs them a look-up. A worker
-- keeps count of them and gives them as p_earlier with its next failure. p_rule may have failures, period (s), share, wait (s),
-- longest_wait (s), probes and successes.
CREATE OR REPLACE FUNCTION stampeded_report_breaker(p_kind text, p_key text, p_queue text, p_failures bigint, p_successes bigint,
                                                    p_earlier bigint DEFAULT 0, p_rule jsonb DEFAULT '{}')
RETURNS TABLE (was text, now_state text, retry_in float8)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_breaker stampeded_breakers;
    v_next    stampeded_breakers;
BEGIN
    IF p_failures = 0 AND NOT EXISTS (SELECT FROM stampeded_breakers
                                       WHERE kind = p_kind AND key = p_key AND state = 'half_open') THEN
        RETURN QUERY SELECT b.state, b.state, extract(epoch FROM b.retry_at - clock_timestamp())::float8
                       FROM stampeded_breakers b WHERE b.kind = p_kind AND b.key = p_key AND b.state = 'open';
        RETURN;
    END IF;
    LOOP
        SELECT * INTO v_breaker FROM stampeded_breakers WHERE kind = p_kind AND key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO stampeded_breakers (kind, key, queues) VALUES (p_kind, p_key, ARRAY[p_queue]) ON CONFLICT DO NOTHING;
    END LOOP;
    v_next := v_breaker;
    v_next.wait_secs := coalesce((p_rule ->> 'wait')::float8, 30);
    v_next.longest_wait_secs := coalesce((p_rule ->> 'longest_wait')::float8, 600);
    v_next.probes := coalesce((p_rule ->> 'probes')::integer, 1);
    IF p_queue <> ALL (v_next.queues) THEN
        v_next.queues := v_next.queues || p_queue;
    END IF;
    v_next := stampeded_step_breaker(v_next, p_failures, p_successes, p_earlier, p_rule, clock_timestamp());
    IF v_next IS DISTINCT FROM v_breaker THEN
        UPDATE stampeded_breakers
           SET state = v_next.state, window_at = v_next.window_at, failures = v_next.failures, successes = v_next.successes,
               openings = v_next.openings, opened_at = v_next.opened_at, retry_at = v_next.retry_at, reason = v_next.reason,
               queues = v_next.queues, wait_secs = v_next.wait_secs, longest_wait_secs = v_next.longest_wait_secs,
               probes = v_next.probes, updated_at = clock_timestamp()
         WHERE kind = p_kind AND key = p_key;
    END IF;
    IF v_breaker.state <> 'closed' AND v_next.state = 'closed' THEN
        PERFORM stampeded_notify_due(q) FROM unnest(v_next.queues) q;
    END IF;
    RETURN QUERY SELECT v_breaker.state, v_next.state, extract(epoch FROM v_next.retry_at - clock_timestamp())::float8;
END $$;
