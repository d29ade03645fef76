-- How many jobs each queue has in each state. Counting by one row per (queue, state) would make every transaction wait for
-- every other one in its queue, so nothing here is ever updated: each statement appends what it changed, folding replaces
-- crowded rows by their sum (stampeded_fold_counts), and readers add up through the view. The sum is exact in every
-- snapshot, since a job and its delta commit together. No index: rows are only ever read all at once, and few.
CREATE TABLE stampeded_count_deltas (
    queue text   NOT NULL,
    state text   NOT NULL,
    n     bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Set once and only ever set back by a crash of the server; see stampeded_unlogged_losses().
CREATE UNLOGGED SEQUENCE stampeded_since_crash OWNED BY stampeded_count_deltas.n;
SELECT nextval('stampeded_since_crash');

CREATE VIEW stampeded_queue_counts AS
    SELECT queue, state, sum(n)::bigint AS n
      FROM (SELECT queue, state, n FROM stampeded_count_deltas
            UNION ALL
            SELECT queue, state, n FROM stampeded_unlogged_losses()) counted
     GROUP BY queue, state
    HAVING sum(n) <> 0;
