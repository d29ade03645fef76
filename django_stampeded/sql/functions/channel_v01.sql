-- The channel on which this install notifies. A channel's name has at most 63 bytes, and a schema's name may have as many,
-- so a long one is replaced by its digest.
CREATE OR REPLACE FUNCTION stampeded_channel() RETURNS text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
RETURN CASE WHEN octet_length(current_schema()) <= 46 THEN current_schema() ELSE md5(current_schema()) END || '.stampeded_insert';
