-- What operators decide about a queue, and the planner's verdict. No index covers a column that the planner or an operator
-- writes, so its updates stay on their page.
CREATE TABLE stampeded_queue_policies (
    queue         text        PRIMARY KEY CHECK (queue <> '' AND char_length(queue) <= 255),
    max_running   integer     CHECK (max_running > 0),
    max_wait_secs integer     CHECK (max_wait_secs > 0),
    verdict       text        NOT NULL DEFAULT 'steady' CHECK (verdict IN ('steady', 'rush', 'hold')),
    reason        text,
    decided_at    timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    paused_at     timestamptz,            -- not null: nobody claims from this queue
    paused_reason text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
