-- Enqueues a callback of a batch: the job that `p_spec` describes by columns of stampeded_jobs, with the batch and its counts in
-- its meta under "batch".
CREATE OR REPLACE FUNCTION stampeded_enqueue_callback(p_spec jsonb, p_batch stampeded_batches, p_counts jsonb) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_job stampeded_jobs := jsonb_populate_record(NULL::stampeded_jobs, p_spec);
    v_id  uuid;
BEGIN
    INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority, destination, expire_seconds, max_attempts,
                                max_interruptions, max_deferrals, backoff_base_ms, backoff_max_ms, dead_letter_queue)
    VALUES (v_job.queue, v_job.task, coalesce(v_job.args, '{}'),
            coalesce(v_job.meta, '{}') || jsonb_build_object('batch',
                jsonb_build_object('id', p_batch.id, 'name', p_batch.name, 'counts', p_counts)),
            v_job.tenant_id, coalesce(v_job.priority, 0), v_job.destination, coalesce(v_job.expire_seconds, 3600),
            coalesce(v_job.max_attempts, 25), coalesce(v_job.max_interruptions, 1), coalesce(v_job.max_deferrals, 100),
            coalesce(v_job.backoff_base_ms, 1000), coalesce(v_job.backoff_max_ms, 3600000), v_job.dead_letter_queue)
    RETURNING id INTO v_id;
    RETURN v_id;
END $$;
