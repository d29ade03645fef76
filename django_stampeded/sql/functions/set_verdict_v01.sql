-- Writes the planner's verdict on a queue, if it is a new one or the last one will soon be stale: a steady one never is, so a
-- quiet system writes nothing. Whether it did.
CREATE OR REPLACE FUNCTION stampeded_set_verdict(p_queue text, p_verdict text, p_reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH decided AS (
        UPDATE stampeded_queue_policies
           SET verdict = p_verdict, reason = p_reason, decided_at = clock_timestamp()
         WHERE queue = p_queue
           AND (verdict <> p_verdict OR p_verdict <> 'steady' AND decided_at < clock_timestamp() - interval '10 seconds'
                OR p_verdict <> 'steady' AND decided_at IS NULL)
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM decided)
$$;
