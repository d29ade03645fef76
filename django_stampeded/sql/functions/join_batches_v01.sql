-- Trigger function's part: jobs that name a batch join it. The batch's row is locked against its end until the jobs commit, by
-- a lock that others who add may share; an unknown or finished batch refuses them.
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
        RAISE EXCEPTION 'a batch of these jobs is unknown or finished: add jobs before it ends, or open a new one'
            USING ERRCODE = 'foreign_key_violation';
    END IF;
END $$;
