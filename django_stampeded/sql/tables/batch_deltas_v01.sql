-- How many jobs each batch has in each state. Jobs that are pruned stay counted.
CREATE TABLE stampeded_batch_deltas (
    batch_id uuid   NOT NULL,
    state    text   NOT NULL,
    n        bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX stampeded_batch_deltas_batch ON stampeded_batch_deltas (batch_id);

CREATE VIEW stampeded_batch_counts AS
    SELECT batch_id, state, sum(n)::bigint AS n
      FROM stampeded_batch_deltas
     GROUP BY batch_id, state
    HAVING sum(n) <> 0;
