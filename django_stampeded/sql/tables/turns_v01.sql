-- Where claims of a queue that serves several keys in turn go on. Every value is a mere hint.
CREATE TABLE stampeded_turns (
    queue     text PRIMARY KEY,
    tenant    text,             -- the last one served
    grp       bigint,           -- and its group of destination and limit_key
    walked    smallint,         -- how far the jobs without any key have been looked for: priority,
    walked_at timestamptz,      -- scheduled_at
    walked_id uuid              -- and id
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
