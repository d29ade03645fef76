-- Nobody claims from a paused queue; it goes on accepting jobs. Pausing it again changes the reason alone.
CREATE OR REPLACE FUNCTION stampeded_pause(p_queue text, p_reason text DEFAULT NULL) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO stampeded_queue_policies AS policy (queue, paused_at, paused_reason)
    VALUES (p_queue, clock_timestamp(), p_reason)
    ON CONFLICT (queue) DO UPDATE
       SET paused_at = coalesce(policy.paused_at, excluded.paused_at), paused_reason = excluded.paused_reason
$$;
