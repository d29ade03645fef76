-- Opens a batch; returns its id, for the column batch_id of its jobs. Each callback is a job, as a JSON object of columns of
-- stampeded_jobs by name: on_complete for when all jobs are final, on_success for when all are completed then, on_failure for
-- when the first one is discarded or cancelled. A batch with p_parent_id is one that the parent's end waits for.
CREATE OR REPLACE FUNCTION stampeded_open_batch(p_name text, p_on_complete jsonb DEFAULT NULL, p_on_success jsonb DEFAULT NULL,
                                                p_on_failure jsonb DEFAULT NULL, p_parent_id uuid DEFAULT NULL,
                                                p_meta jsonb DEFAULT '{}') RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_id uuid;
BEGIN
    IF p_parent_id IS NOT NULL THEN
        PERFORM stampeded_join_batches(ARRAY[p_parent_id]);
    END IF;
    INSERT INTO stampeded_batches (name, on_complete, on_success, on_failure, parent_id, meta)
    VALUES (p_name, p_on_complete, p_on_success, p_on_failure, p_parent_id, p_meta)
    RETURNING id INTO v_id;
    RETURN v_id;
END $$;
