-- Says that all jobs of a batch are in, but for those that its own jobs still add: it may finish from now on. False for a
-- batch that is unknown or has finished.
CREATE OR REPLACE FUNCTION stampeded_seal_batch(p_id uuid) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE stampeded_batches SET sealed_at = coalesce(sealed_at, clock_timestamp()) WHERE id = p_id AND finished_at IS NULL;
    RETURN FOUND;
END $$;
