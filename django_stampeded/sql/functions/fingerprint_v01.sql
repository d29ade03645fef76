-- What makes two errors one cluster: the digest of the text without what differs from one time to the next.
CREATE OR REPLACE FUNCTION stampeded_fingerprint(p_error text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(
    regexp_replace(regexp_replace(regexp_replace(lower(p_error),
        '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'U', 'g'),
        '0x[0-9a-f]+|[0-9a-f]{16,}', 'X', 'g'),
        '[0-9]+', 'N', 'g'), 'UTF8'));
