-- The version of this schema, which a worker compares with the one it was written for before it claims anything.
CREATE OR REPLACE FUNCTION stampeded_schema_version() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1;
