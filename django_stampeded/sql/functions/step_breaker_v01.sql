-- What a breaker becomes by so many failures and successes. It reads nothing and changes nothing.
--
--   closed     counts them; p_earlier are successes before that nobody wrote down. Opens at p_rule's `failures` of them within
--              `period` seconds, if they are at least its `share` of all
--   open       takes no notice: they are of jobs that had started before
--   half_open  a failure opens it again, for twice as long up to the longest wait; `successes` in a row close it, and each
--              lets the next probe start
CREATE OR REPLACE FUNCTION stampeded_step_breaker(p_breaker stampeded_breakers, p_failures bigint, p_successes bigint,
                                                  p_earlier bigint, p_rule jsonb, p_now timestamptz) RETURNS stampeded_breakers
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_breaker stampeded_breakers := p_breaker;
    v_opens   boolean := false;
BEGIN
    IF v_breaker.state = 'closed' THEN
        IF v_breaker.window_at IS NULL
           OR v_breaker.window_at + coalesce((p_rule ->> 'period')::float8, 60) * interval '1 second' <= p_now THEN
            v_breaker.window_at := p_now;
            v_breaker.failures := 0;
            v_breaker.successes := 0;
        END IF;
        v_breaker.failures := v_breaker.failures + p_failures;
        v_breaker.successes := v_breaker.successes + p_successes + p_earlier;
        v_opens := v_breaker.failures >= coalesce((p_rule ->> 'failures')::bigint, 10)
                   AND v_breaker.failures >= coalesce((p_rule ->> 'share')::float8, 0.5) * (v_breaker.failures + v_breaker.successes);
    ELSIF v_breaker.state = 'half_open' AND p_failures > 0 THEN
        v_opens := true;
    ELSIF v_breaker.state = 'half_open' AND p_successes > 0 THEN
        v_breaker.successes := v_breaker.successes + p_successes;
        v_breaker.retry_at := p_now;
        IF v_breaker.successes >= coalesce((p_rule ->> 'successes')::bigint, 2) THEN
            v_breaker.state := 'closed';
            v_breaker.failures := 0;
            v_breaker.successes := 0;
            v_breaker.openings := 0;
            SELECT NULL, NULL, NULL, NULL
              INTO v_breaker.window_at, v_breaker.opened_at, v_breaker.retry_at, v_breaker.reason;
        END IF;
    END IF;
    IF v_opens THEN
        v_breaker.reason := v_breaker.failures || ' failures';
        IF v_breaker.state = 'half_open' THEN
            v_breaker.reason := 'a probe failed';
        END IF;
        v_breaker.state := 'open';
        v_breaker.opened_at := coalesce(v_breaker.opened_at, p_now);
        v_breaker.retry_at := p_now + interval '1 second'
            * least(v_breaker.wait_secs * 2.0 ^ least(v_breaker.openings, 30), v_breaker.longest_wait_secs);
        v_breaker.openings := least(v_breaker.openings + 1, 1000000);
        v_breaker.window_at := NULL;
        v_breaker.failures := 0;
        v_breaker.successes := 0;
    END IF;
    RETURN v_breaker;
END $$;
