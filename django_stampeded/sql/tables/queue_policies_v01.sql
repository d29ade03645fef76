-- What operators decide about a queue, and the planner's verdict. No index covers a column that the planner or an operator
-- writes, so its updates stay on their page. The row of queue '*' stands for all of them and can do nothing but pause.
CREATE TABLE stampeded_queue_policies (
    queue               text        PRIMARY KEY CHECK (queue <> '' AND char_length(queue) <= 255),
    max_running         integer     CHECK (max_running > 0),
    max_wait_secs       integer     CHECK (max_wait_secs > 0),
    verdict             text        NOT NULL DEFAULT 'steady' CHECK (verdict IN ('steady', 'rush', 'hold')),
    reason              text,
    decided_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    paused_at           timestamptz,            -- not null: nobody claims from this queue …
    paused_reason       text,
    paused_until        timestamptz,            -- … until then, where that is said
    rate_limit          integer     CHECK (rate_limit > 0),
    rate_period_secs    integer     CHECK (rate_period_secs > 0),
    fair_tenants        boolean     NOT NULL DEFAULT false,
    keep_completed_secs integer     CHECK (keep_completed_secs >= 0),
    keep_discarded_secs integer     CHECK (keep_discarded_secs >= 0),
    keep_cancelled_secs integer     CHECK (keep_cancelled_secs >= 0),
    CONSTRAINT stampeded_policy_rate_has_a_period CHECK ((rate_limit IS NULL) = (rate_period_secs IS NULL)),
    CONSTRAINT stampeded_policy_of_all_only_pauses CHECK (queue <> '*' OR NOT fair_tenants AND num_nonnulls(
        max_running, max_wait_secs, rate_limit, keep_completed_secs, keep_discarded_secs, keep_cancelled_secs) = 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
