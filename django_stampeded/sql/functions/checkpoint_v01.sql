-- Stores where a job stands, so that a later attempt goes on from there, and beats. Returns the checkpoint's number, or null
-- when the job is no longer the caller's own. How deaths are counted against progress: see stampeded_apply_failure().
CREATE OR REPLACE FUNCTION stampeded_checkpoint(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint, p_state jsonb)
RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_seq    integer;
    v_before integer;
    v_size   integer := octet_length(p_state::text);
BEGIN
    IF pg_column_size(p_state) > 65536 THEN
        RAISE EXCEPTION 'a checkpoint has at most 65536 bytes and this one has %: keep a cursor, not the data', pg_column_size(p_state)
            USING ERRCODE = 'check_violation';
    END IF;
    UPDATE stampeded_jobs
       SET checkpoint = p_state, checkpoint_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
           checkpoint_seq = least(checkpoint_seq::bigint + 1, 2147483647)
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END
    RETURNING new.checkpoint_seq, octet_length(old.checkpoint::text) INTO v_seq, v_before;
    IF v_size > 8192 AND v_size > v_before THEN
        RAISE WARNING 'the checkpoint of job % has % bytes and grows: at 65536 it will be refused', p_id, v_size;
    END IF;
    RETURN v_seq;
END $$;
