-- Lets jobs, or a batch within, join batches. A batch's row is locked against its end until they commit, by a lock that others
-- who add may share; an unknown or finished batch refuses them.
CREATE OR REPLACE FUNCTION stampeded_join_batches(p_ids uuid[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_open uuid[];
BEGIN
    SELECT array_agg(id) INTO v_open
      FROM (SELECT id FROM stampeded_batches WHERE id = ANY (p_ids) AND finished_at IS NULL ORDER BY id FOR KEY SHARE) open_ones;
    IF NOT p_ids <@ coalesce(v_open, '{}') THEN
        RAISE EXCEPTION 'batch % is unknown or has finished: add to it before it ends, or open a new one',
            (SELECT id FROM unnest(p_ids) id WHERE id <> ALL (coalesce(v_open, '{}')) LIMIT 1)
            USING ERRCODE = 'foreign_key_violation';
    END IF;
END $$;
