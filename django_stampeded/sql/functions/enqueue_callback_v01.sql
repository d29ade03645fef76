-- Enqueues a callback of a batch, if it has that one: the job that the column named p_event describes, with the batch and its
-- counts in its meta under "batch". Values that no job can have are put on record on the batch, which ends all the same: its
-- neighbours must not wait for it. Any other error passes, and everything is tried again.
CREATE OR REPLACE FUNCTION stampeded_enqueue_callback(p_event text, p_batch stampeded_batches, p_counts jsonb) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_spec jsonb := to_jsonb(p_batch) -> p_event;
    v_job  stampeded_jobs;
    v_id   uuid;
BEGIN
    IF v_spec IS NULL OR v_spec = 'null' THEN
        RETURN NULL;
    END IF;
    v_job := jsonb_populate_record(NULL::stampeded_jobs, v_spec);
    INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority, destination, expire_seconds, max_attempts,
                                max_interruptions, max_deferrals, backoff_base_ms, backoff_max_ms, dead_letter_queue, limit_key)
    VALUES (v_job.queue, v_job.task, coalesce(v_job.args, '{}'),
            coalesce(v_job.meta, '{}') || jsonb_build_object('batch',
                jsonb_build_object('id', p_batch.id, 'name', p_batch.name, 'event', p_event, 'counts', p_counts)),
            v_job.tenant_id, coalesce(v_job.priority, 0), v_job.destination, coalesce(v_job.expire_seconds, 3600),
            coalesce(v_job.max_attempts, 25), coalesce(v_job.max_interruptions, 1), coalesce(v_job.max_deferrals, 100),
            coalesce(v_job.backoff_base_ms, 1000), coalesce(v_job.backoff_max_ms, 3600000), v_job.dead_letter_queue,
            v_job.limit_key)
    RETURNING id INTO v_id;
    RETURN v_id;
EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
    RAISE WARNING 'batch % got no % callback: %', p_batch.id, p_event, SQLERRM;
    UPDATE stampeded_batches SET callback_error = left(concat_ws(E'\n', callback_error, p_event || ': ' || SQLERRM), 4000)
     WHERE id = p_batch.id;
    RETURN NULL;
END $$;
