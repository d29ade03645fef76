-- What runs by the clock.
CREATE TABLE stampeded_schedules (
    key              text        PRIMARY KEY CHECK (key <> '' AND char_length(key) <= 255),
    queue            text        NOT NULL CHECK (queue <> '' AND char_length(queue) <= 255),
    task             text        NOT NULL CHECK (task <> '' AND char_length(task) <= 255),
    args             jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(args) = 'object'),
    meta             jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(meta) = 'object'),
    tenant_id        text        CHECK (char_length(tenant_id) <= 255),
    priority         smallint    NOT NULL DEFAULT 0,
    interval_secs    bigint      CHECK (interval_secs > 0),
    cron_expr        text,
    next_run_at      timestamptz NOT NULL DEFAULT now(),
    last_run_at      timestamptz,
    dst_policy       text        NOT NULL DEFAULT 'instant' CHECK (dst_policy IN ('instant', 'wall_clock')),
    timezone         text        NOT NULL DEFAULT 'UTC',
    missed_policy    text        NOT NULL DEFAULT 'once' CHECK (missed_policy IN ('once', 'skip')),
    paused           boolean     NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    set_aside_reason text,       -- why firing gave up on this schedule; set together with paused
    options          jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(options) = 'object'),  -- other columns of its jobs
    overlap_policy   text        NOT NULL DEFAULT 'allow' CHECK (overlap_policy IN ('allow', 'skip')),
    jitter_secs      integer     NOT NULL DEFAULT 0 CHECK (jitter_secs >= 0),
    last_job_id      uuid,
    declared         jsonb,       -- what the code last said, null where no code did
    declared_at      timestamptz, -- when it last said so, null once it no longer does
    replan           boolean     NOT NULL DEFAULT false,  -- next_run_at is when it was edited, no occurrence
    CONSTRAINT stampeded_schedules_one_timing CHECK (num_nonnulls(interval_secs, cron_expr) = 1)
);

CREATE INDEX stampeded_schedules_due ON stampeded_schedules (next_run_at) WHERE NOT paused;
