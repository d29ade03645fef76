-- Moves a job that isn't executing to another queue, with its id and all it holds. It is written anew rather than updated:
-- an update of the partition key makes whoever waits for the row fail, while a deleted row is passed over. No row for an
-- executing or unknown job. Fails where the job's dedup slot is taken in the other queue.
CREATE OR REPLACE FUNCTION stampeded_move(p_queue text, p_id uuid, p_to text) RETURNS TABLE (was text, now_state text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_columns text;
    v_values  text;
BEGIN
    IF p_to IS NULL OR p_to = '' OR char_length(p_to) > 255 THEN
        RAISE EXCEPTION 'a queue''s name has 1 to 255 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum),
           string_agg(CASE attname
                          WHEN 'queue' THEN '$3'
                          -- A batch that has finished takes nothing in: a job of it that was retried leaves it.
                          WHEN 'batch_id' THEN 'CASE WHEN state IN (''completed'', ''discarded'', ''cancelled'') THEN batch_id ELSE '
                              '(SELECT b.id FROM stampeded_batches b WHERE b.id = batch_id AND b.finished_at IS NULL) END'
                          ELSE quote_ident(attname) END, ', ' ORDER BY attnum)
      INTO v_columns, v_values
      FROM pg_attribute
     WHERE attrelid = 'stampeded_jobs'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
    PERFORM FROM stampeded_jobs WHERE queue = p_queue AND id = p_id AND state NOT IN ('claimed', 'executing') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE stampeded_dependencies SET parent_queue = p_to WHERE parent_id = p_id AND parent_queue = p_queue;
    UPDATE stampeded_dependencies SET child_queue = p_to WHERE child_id = p_id AND child_queue = p_queue;
    RETURN QUERY EXECUTE format(
        'WITH gone AS (DELETE FROM stampeded_jobs WHERE queue = $1 AND id = $2 AND state NOT IN (''claimed'', ''executing'') '
        'RETURNING *) INSERT INTO stampeded_jobs (%s) SELECT %s FROM gone RETURNING state, state', v_columns, v_values)
        USING p_queue, p_id, p_to;
    -- Its old queue tallies it as deleted, so that nothing seems to have ended there; nor has it in the new one.
    INSERT INTO stampeded_tallies (queue, what, n)
    SELECT queue, 'deleted ' || state, -1 FROM stampeded_jobs
     WHERE queue = p_to AND id = p_id AND state IN ('completed', 'discarded', 'cancelled');
END $$;
