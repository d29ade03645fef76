-- When a rate limit allows the next start, null where it does so now.
CREATE OR REPLACE FUNCTION stampeded_rate_frees_at(p_queue text, p_scope text, p_value text, p_rate_limit bigint,
                                                   p_period_secs bigint) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_since timestamptz := v_now - p_period_secs * interval '1 second';
    v_total bigint;
BEGIN
    IF stampeded_rate_room(p_queue, p_scope, p_value, p_rate_limit, p_period_secs, v_now) > 0 THEN
        RETURN NULL;
    END IF;
    SELECT total INTO v_total FROM stampeded_starts
     WHERE queue = p_queue AND scope = p_scope AND value = p_value ORDER BY started_at DESC LIMIT 1;
    RETURN (SELECT started_at + p_period_secs * interval '1 second' + interval '1 microsecond' FROM stampeded_starts
             WHERE queue = p_queue AND scope = p_scope AND value = p_value AND started_at >= v_since
               AND total > v_total - p_rate_limit
             ORDER BY started_at LIMIT 1);
END $$;
