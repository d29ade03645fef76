-- The day for which a job is scheduled that waits for other jobs: never, but within what every client's dates can hold.
CREATE OR REPLACE FUNCTION stampeded_waits_until() RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '9999-01-01 00:00:00+00'::timestamptz;
