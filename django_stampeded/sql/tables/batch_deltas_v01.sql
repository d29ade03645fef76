-- How many jobs each open batch has in each state: appended by whoever changes it, added up by whoever asks, as for the queues
-- (stampeded_count_deltas). What counts of a finished batch stands on its row.
CREATE TABLE stampeded_batch_deltas (
    batch_id uuid   NOT NULL,
    state    text   NOT NULL,
    n        bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX stampeded_batch_deltas_batch ON stampeded_batch_deltas (batch_id);

CREATE VIEW stampeded_batch_counts AS
    SELECT batch_id, state, sum(n)::bigint AS n
      FROM stampeded_batch_deltas d
     WHERE EXISTS (SELECT FROM stampeded_batches b WHERE b.id = d.batch_id AND b.finished_at IS NULL)
     GROUP BY batch_id, state
    HAVING sum(n) <> 0
    UNION ALL
    SELECT b.id, c.key, c.value::bigint
      FROM stampeded_batches b CROSS JOIN LATERAL jsonb_each_text(b.counts) c
     WHERE b.finished_at IS NOT NULL;
