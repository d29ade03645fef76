-- The jobs. One row is one job, from its INSERT to its pruning. The table is partitioned by queue: the DEFAULT partition
-- takes every queue that has none of its own, and stampeded_create_queue() gives a queue its own.
--
-- The dedup key holds the scope's digest and, where there is a period, the bucket of inserted_at after it: digests have one
-- length, so a scope can't collide with another scope's bucket. Everything in the expression is immutable, which is why the
-- bucket is written as a number (text forms of times depend on settings) and the scope reaches bytea with its backslashes
-- doubled (bytea's input would read them as escapes).
CREATE TABLE stampeded_jobs (
    id                     uuid        NOT NULL DEFAULT uuidv7(),
    queue                  text        NOT NULL CHECK (queue <> '' AND char_length(queue) <= 255),
    tenant_id              text        CHECK (char_length(tenant_id) <= 255),
    task                   text        NOT NULL CHECK (task <> '' AND char_length(task) <= 255),
    args                   jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(args) = 'object' AND pg_column_size(args) <= 1048576),
    meta                   jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(meta) = 'object' AND pg_column_size(meta) <= 1048576),
    state                  text        NOT NULL DEFAULT 'available' CHECK (state IN
                               ('available', 'claimed', 'executing', 'retryable', 'completed', 'discarded', 'cancelled')),
    priority               smallint    NOT NULL DEFAULT 0,
    destination            text        CHECK (char_length(destination) <= 255),
    scheduled_at           timestamptz NOT NULL DEFAULT now(),
    expire_seconds         integer     NOT NULL DEFAULT 3600 CHECK (expire_seconds > 0),
    heartbeat_at           timestamptz,
    attempt                smallint    NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    max_attempts           smallint    NOT NULL DEFAULT 25 CHECK (max_attempts >= 1),
    attempted_by           text[]      NOT NULL DEFAULT '{}',
    interruptions          smallint    NOT NULL DEFAULT 0 CHECK (interruptions >= 0),
    max_interruptions      smallint    NOT NULL DEFAULT 1 CHECK (max_interruptions >= 0),
    deferrals              smallint    NOT NULL DEFAULT 0 CHECK (deferrals >= 0),
    max_deferrals          smallint    NOT NULL DEFAULT 100 CHECK (max_deferrals >= 0),
    checkpoint             jsonb       CHECK (pg_column_size(checkpoint) <= 65536),
    checkpoint_at          timestamptz,
    checkpoint_seq         integer     NOT NULL DEFAULT 0 CHECK (checkpoint_seq >= 0),
    backoff_base_ms        smallint    NOT NULL DEFAULT 1000 CHECK (backoff_base_ms > 0),
    backoff_max_ms         integer     NOT NULL DEFAULT 3600000 CHECK (backoff_max_ms > 0),
    claimed_by             uuid,
    claimed_at             timestamptz,
    dedup_scope            text,
    dedup_period           text        CHECK (dedup_period IN ('minute', 'hour', 'day', 'week', 'month')),
    dedup_key              bytea       GENERATED ALWAYS AS (
                               sha256(replace(dedup_scope, '\', '\\')::bytea)
                               || CASE WHEN dedup_period IS NULL THEN ''::bytea
                                  ELSE (dedup_period || extract(epoch FROM
                                        date_trunc(dedup_period, inserted_at AT TIME ZONE 'UTC'))::bigint::text)::bytea END
                           ) STORED,
    failure_kind           text        CHECK (failure_kind IN ('raised', 'timed_out', 'heartbeat_lost', 'worker_exited',
                               'worker_missing', 'breaker_open', 'throttled', 'cancelled', 'unrecoverable')),
    last_error             text        CHECK (char_length(last_error) <= 4000),
    errors                 jsonb       NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(errors) = 'array'),
    error_fingerprint      bytea,
    dead_letter_queue      text        CHECK (dead_letter_queue <> queue AND char_length(dead_letter_queue) <= 255),
    source_id              uuid,
    source_queue           text,
    source_attempts        smallint,
    inserted_at            timestamptz NOT NULL DEFAULT now(),
    finished_at            timestamptz,
    -- From here on: columns beyond the shared contract, each nullable or defaulted.
    interrupted_checkpoint bytea,      -- digest of the checkpoint that stood when a worker last died with this job
    batch_id               uuid,       -- the batch that it belongs to
    limit_key              text        CHECK (limit_key <> '' AND char_length(limit_key) <= 255),
    PRIMARY KEY (queue, id),
    CONSTRAINT stampeded_jobs_attempt_within_max CHECK (attempt <= max_attempts)
) PARTITION BY LIST (queue);

CREATE TABLE stampeded_jobs_default PARTITION OF stampeded_jobs DEFAULT;

-- Each index is partial wherever a state narrows it, so that finished jobs cost a claim nothing.
CREATE INDEX stampeded_jobs_id ON stampeded_jobs (id);
CREATE INDEX stampeded_jobs_claim ON stampeded_jobs (queue, priority, scheduled_at, id)
    WHERE state IN ('available', 'retryable');
CREATE INDEX stampeded_jobs_running ON stampeded_jobs (queue, claimed_by)
    WHERE state IN ('claimed', 'executing');
CREATE INDEX stampeded_jobs_finished ON stampeded_jobs (state, finished_at)
    WHERE state IN ('completed', 'discarded', 'cancelled');
CREATE UNIQUE INDEX stampeded_jobs_dedup ON stampeded_jobs (queue, dedup_key)
    WHERE dedup_key IS NOT NULL;
CREATE INDEX stampeded_jobs_retryable ON stampeded_jobs (id)
    WHERE state = 'retryable';
CREATE INDEX stampeded_jobs_failures ON stampeded_jobs (error_fingerprint, id)
    WHERE state IN ('retryable', 'discarded') AND error_fingerprint IS NOT NULL;
CREATE INDEX stampeded_jobs_source ON stampeded_jobs (source_id)
    WHERE source_id IS NOT NULL;
CREATE INDEX stampeded_jobs_batch ON stampeded_jobs (batch_id, id)
    WHERE batch_id IS NOT NULL;
-- The waiting jobs that limits by tenant, destination or limit_key and fair shares can tell apart, one group after the other;
-- who sets none of these pays nothing. A digest stands for the last two, as three long texts wouldn't fit into an entry.
CREATE INDEX stampeded_jobs_keys ON stampeded_jobs (
        queue, coalesce(tenant_id, ''), hashtextextended(coalesce(destination, ''), hashtextextended(coalesce(limit_key, ''), 0)),
        priority, scheduled_at, id)
    WHERE state IN ('available', 'retryable') AND num_nonnulls(tenant_id, destination, limit_key) > 0;
