-- Until when nobody may claim from a queue: infinity while it is paused without an end, null while it gives jobs. What ends
-- when a job does (max_running) or concerns some jobs only isn't among it.
CREATE OR REPLACE FUNCTION stampeded_blocked_until(p_queue text) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_policy stampeded_queue_policies;
    v_until  timestamptz;
BEGIN
    FOR v_policy IN SELECT * FROM stampeded_queue_policies WHERE queue IN (p_queue, '*') LOOP
        IF v_policy.paused_at IS NOT NULL THEN
            v_until := greatest(v_until, coalesce(v_policy.paused_until, 'infinity'));
        END IF;
        IF v_policy.rate_limit IS NOT NULL THEN
            v_until := greatest(v_until, stampeded_rate_frees_at(v_policy.queue, 'queue', '', v_policy.rate_limit,
                                                                 v_policy.rate_period_secs));
        END IF;
    END LOOP;
    RETURN CASE WHEN v_until > clock_timestamp() THEN v_until END;
END $$;
