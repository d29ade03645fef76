-- How many more jobs of one tenant, destination or limit_key may start, null where nothing limits them. The row of that very
-- value goes before the one for each. p_running has the running jobs as {"scope:value": n},
-- and what breakers allow as {"breaker:destination": n}; null: there are no such limits.
CREATE OR REPLACE FUNCTION stampeded_key_room(p_queue text, p_scope text, p_value text, p_running jsonb) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT
SET search_path FROM CURRENT
AS $$
DECLARE
    v_limit stampeded_limits;
BEGIN
    SELECT * INTO v_limit FROM stampeded_limits WHERE queue = p_queue AND scope = p_scope AND value = p_value;
    IF NOT FOUND THEN
        SELECT * INTO v_limit FROM stampeded_limits WHERE queue = p_queue AND scope = p_scope AND value IS NULL;
    END IF;
    RETURN least(
        CASE WHEN p_scope = 'destination' THEN (p_running ->> ('breaker:' || p_value))::bigint END,
        v_limit.max_running - coalesce((p_running ->> (p_scope || ':' || p_value))::bigint, 0),
        CASE WHEN v_limit.rate_limit IS NOT NULL THEN
            stampeded_rate_room(p_queue, p_scope, p_value, v_limit.rate_limit, v_limit.rate_period_secs, clock_timestamp()) END);
END $$;
