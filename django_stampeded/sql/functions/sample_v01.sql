-- Writes the sample of this moment unless this slot (of p_every) has one, drops those older than p_keep, and returns how many
-- rows it wrote. Any number of processes may call it: one at a time goes on, the others find the slot taken.
--
-- It never reads more of the jobs than the head of the claim index: depths come from the counts; what has ended is the change
-- of the final counts since the queue's last sample, plus what was deleted meanwhile (stampeded_tallies). A retry of a final
-- job lowers its count, and a crash of the server those of an unlogged queue: that is never less than nothing.
--
-- Of the queues, the p_limit busiest get a row, and only where something is going on or has changed; an idle one gets a row
-- each ten minutes, so that its final counts are there to compare with. The row of the queue '' has all of them together, and
-- tells that this slot was sampled. A clock that was set back leaves rows of the future, which go.
CREATE OR REPLACE FUNCTION stampeded_sample(p_every interval DEFAULT '5 seconds', p_keep interval DEFAULT '2 hours',
                                            p_limit bigint DEFAULT 200)
RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_slot bigint := floor(extract(epoch FROM v_now) / extract(epoch FROM p_every));
    v_last timestamptz;
    v_rows bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('stampeded_samples', 'stampeded_jobs'::regclass::oid::bigint))
       OR EXISTS (SELECT FROM stampeded_samples WHERE queue = '' AND slot = v_slot) THEN
        RETURN 0;
    END IF;
    DELETE FROM stampeded_samples
     WHERE slot < v_slot - ceil(extract(epoch FROM p_keep) / extract(epoch FROM p_every)) OR slot > v_slot;
    SELECT at INTO v_last FROM stampeded_samples WHERE queue = '' ORDER BY slot DESC LIMIT 1;

    WITH picked AS MATERIALIZED (
        SELECT ctid FROM stampeded_tallies FOR UPDATE SKIP LOCKED
    ), told AS (
        DELETE FROM stampeded_tallies WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked))
        RETURNING queue, what, n
    ), tallied AS (
        SELECT queue,
               ARRAY[coalesce(sum(n) FILTER (WHERE what = 'deleted completed'), 0),
                     coalesce(sum(n) FILTER (WHERE what = 'deleted discarded'), 0),
                     coalesce(sum(n) FILTER (WHERE what = 'deleted cancelled'), 0)]::bigint[] AS deleted,
               coalesce(jsonb_object_agg(what, n) FILTER (WHERE NOT starts_with(what, 'deleted ')), '{}') AS failures
          FROM (SELECT queue, what, sum(n) AS n FROM told GROUP BY queue, what) summed
         GROUP BY queue
    ), counted AS (
        SELECT queue,
               coalesce(sum(n) FILTER (WHERE state = 'available'), 0)::bigint AS available,
               coalesce(sum(n) FILTER (WHERE state = 'retryable'), 0)::bigint AS retryable,
               coalesce(sum(n) FILTER (WHERE state IN ('claimed', 'executing')), 0)::bigint AS executing,
               ARRAY[coalesce(sum(n) FILTER (WHERE state = 'completed'), 0),
                     coalesce(sum(n) FILTER (WHERE state = 'discarded'), 0),
                     coalesce(sum(n) FILTER (WHERE state = 'cancelled'), 0)]::bigint[] AS final_counts
          FROM stampeded_queue_counts
         GROUP BY queue
    ), both_sides AS (
        SELECT queue, coalesce(available, 0) AS available, coalesce(retryable, 0) AS retryable,
               coalesce(executing, 0) AS executing, coalesce(final_counts, '{0,0,0}') AS final_counts,
               coalesce(deleted, '{0,0,0}') AS deleted, coalesce(failures, '{}') AS failures
          FROM counted FULL JOIN tallied USING (queue)
    ), compared AS (
        SELECT b.*, e.slot AS earlier_slot, e.final_counts AS earlier,
               ARRAY(SELECT CASE WHEN v_last IS NULL THEN 0
                            ELSE greatest(b.final_counts[i] + b.deleted[i] - coalesce(e.final_counts[i], 0), 0) END
                       FROM generate_series(1, 3) i) AS ended
          FROM both_sides b
          LEFT JOIN LATERAL (SELECT s.slot, s.final_counts FROM stampeded_samples s
                              WHERE s.queue = b.queue ORDER BY s.slot DESC LIMIT 1) e ON true
    ), worth_a_row AS (
        SELECT * FROM compared
         WHERE available + retryable + executing > 0 OR failures <> '{}' OR earlier IS DISTINCT FROM final_counts
            OR earlier_slot < v_slot - ceil(600 / extract(epoch FROM p_every))
         ORDER BY available + retryable + executing + ended[1] + ended[2] + ended[3] DESC, queue
         LIMIT p_limit
    ), with_age AS (
        SELECT w.*, CASE WHEN due.at <= v_now THEN extract(epoch FROM v_now - due.at) END AS oldest
          FROM worth_a_row w
          CROSS JOIN LATERAL (SELECT CASE WHEN w.available + w.retryable > 0 THEN stampeded_next_due(w.queue, false) END AS at) due
    )
    INSERT INTO stampeded_samples (queue, slot, at, seconds, available, retryable, executing, oldest_waiting_secs,
                                   completed, discarded, cancelled, failures, final_counts)
    SELECT queue, v_slot, v_now, extract(epoch FROM v_now - v_last), available, retryable, executing, oldest,
           ended[1], ended[2], ended[3], CASE WHEN v_last IS NULL THEN '{}' ELSE failures END, final_counts
      FROM with_age
    UNION ALL
    SELECT '', v_slot, v_now, extract(epoch FROM v_now - v_last), coalesce(sum(available), 0), coalesce(sum(retryable), 0),
           coalesce(sum(executing), 0), (SELECT max(oldest) FROM with_age),
           coalesce(sum(ended[1]), 0), coalesce(sum(ended[2]), 0), coalesce(sum(ended[3]), 0),
           CASE WHEN v_last IS NULL THEN '{}' ELSE
                coalesce((SELECT jsonb_object_agg(what, n)
                            FROM (SELECT what, sum(n) AS n FROM told WHERE NOT starts_with(what, 'deleted ')
                                   GROUP BY what) kinds), '{}') END,
           '{0,0,0}'
      FROM compared
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END $$;
