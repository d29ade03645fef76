-- Notes how far a job is: p_done of p_total units (null: nobody knows how many), and what it is at. False when somebody else
-- has claimed the job since. Others see it when the caller's transaction commits: report outside of a long one.
CREATE OR REPLACE FUNCTION stampeded_progress(p_queue text, p_id uuid, p_worker_id uuid, p_attempt bigint,
                                              p_done bigint, p_total bigint DEFAULT NULL, p_message text DEFAULT '')
RETURNS boolean
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    SELECT count(*) = 1 FROM stampeded_progress_many(p_worker_id, ARRAY[p_queue], ARRAY[p_id], ARRAY[p_attempt],
                                                     ARRAY[p_done], ARRAY[p_total], ARRAY[p_message])
$$;
