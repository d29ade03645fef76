-- Nobody claims from a paused queue, until p_until where that is given; it goes on accepting jobs. Queue '*' stands for all of
-- them. Pausing it again changes the reason and the end alone.
CREATE OR REPLACE FUNCTION stampeded_pause(p_queue text, p_reason text DEFAULT NULL, p_until timestamptz DEFAULT NULL) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO stampeded_queue_policies AS policy (queue, paused_at, paused_reason, paused_until)
    VALUES (p_queue, clock_timestamp(), p_reason, p_until)
    ON CONFLICT (queue) DO UPDATE
       SET paused_at = CASE WHEN policy.paused_until <= clock_timestamp() THEN excluded.paused_at
                       ELSE coalesce(policy.paused_at, excluded.paused_at) END,
           paused_reason = excluded.paused_reason, paused_until = excluded.paused_until
$$;
