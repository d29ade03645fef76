-- Claims up to p_limit due jobs over several queues, the first named first; p_limits, where given, bounds each queue.
CREATE OR REPLACE FUNCTION stampeded_claim_many(p_queues text[], p_worker_id uuid, p_limit bigint,
                                                p_limits bigint[] DEFAULT NULL, p_now timestamptz DEFAULT NULL)
RETURNS SETOF stampeded_jobs
LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT
AS $$
DECLARE
    v_left  bigint := p_limit;
    v_taken bigint;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        RAISE EXCEPTION 'p_limit must be 0 or more, not %', coalesce(p_limit::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_queues IS NULL THEN
        RAISE EXCEPTION 'p_queues must name the queues to claim from, not null' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_limits IS NOT NULL AND cardinality(p_limits) <> cardinality(p_queues) THEN
        RAISE EXCEPTION 'p_limits must have one limit for each of p_queues' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR i IN 1 .. cardinality(p_queues) LOOP
        EXIT WHEN v_left = 0;
        RETURN QUERY SELECT * FROM stampeded_claim(p_queues[i], p_worker_id, least(v_left, p_limits[i]), p_now);
        GET DIAGNOSTICS v_taken = ROW_COUNT;
        v_left := v_left - v_taken;
    END LOOP;
END $$;
