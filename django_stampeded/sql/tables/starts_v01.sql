-- The starts that rate limits count: one row for each claim and limit, `n` the jobs it started, `total` all that were started
-- under this limit up to it. So the starts of any window are told by its first and its last row. A row goes once no window
-- reaches back to it.
CREATE TABLE stampeded_starts (
    queue      text        NOT NULL,
    scope      text        NOT NULL,        -- queue, tenant, destination or key
    value      text        NOT NULL,        -- '' for the queue itself
    started_at timestamptz NOT NULL,
    n          bigint      NOT NULL,
    total      bigint      NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (queue, scope, value, started_at)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX stampeded_starts_expiry ON stampeded_starts (expires_at);
