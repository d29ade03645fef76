-- Stores how far one step of a job is, in the job's checkpoint beside its other steps, and beats. Returns what
-- stampeded_checkpoint() does: the checkpoint's number, null when the job is no longer the caller's own.
--
-- The checkpoint of a job with steps is {"stampeded_steps": {"<name>": <entry>, …}, "state": <its plain checkpoint>}; an entry
-- has "done": true once the step is finished, its "result" if it has one, its "cursor" if it has one. Merged here and not by
-- the caller, so that an entry that was rolled back never comes back with the next one.
CREATE OR REPLACE FUNCTION stampeded_step(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint, p_name text, p_entry jsonb)
RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_before jsonb;
BEGIN
    IF p_name IS NULL OR p_name = '' OR jsonb_typeof(p_entry) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'a step needs a name and a JSON object'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Locked, for threads of the job may record steps at the same time, and none may be lost.
    SELECT checkpoint INTO v_before FROM stampeded_jobs
     WHERE queue = p_queue AND id = p_id AND attempt = p_attempt
       AND CASE WHEN state IN ('claimed', 'executing') THEN claimed_by = p_worker_id END
       FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(v_before -> 'stampeded_steps') IS DISTINCT FROM 'object' THEN
        v_before := jsonb_build_object('stampeded_steps', '{}'::jsonb)
                    || CASE WHEN v_before IS NULL THEN '{}'::jsonb ELSE jsonb_build_object('state', v_before) END;
    END IF;
    RETURN stampeded_checkpoint(p_queue, p_id, p_worker_id, p_attempt,
                                jsonb_set(v_before, ARRAY['stampeded_steps', p_name], p_entry));
END $$;
