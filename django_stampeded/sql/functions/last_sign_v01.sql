-- A job's own last sign of life.
CREATE OR REPLACE FUNCTION stampeded_last_sign(p_job stampeded_jobs) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
RETURN coalesce(greatest((p_job).heartbeat_at, (p_job).checkpoint_at, (p_job).claimed_at), (p_job).inserted_at);
