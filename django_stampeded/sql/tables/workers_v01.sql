-- One row per worker process. A worker that is written for the shared contract inserts a row and beats; `waiting` is ours:
-- false says "I am busy and shall look again by myself", which spares enqueuers the NOTIFY. Only the default is safe for a
-- worker that never says anything. stop_requested_at is ours too: since when an operator wants it to end.
CREATE TABLE stampeded_workers (
    id             uuid        PRIMARY KEY DEFAULT uuidv7(),
    hostname       text        NOT NULL,
    pid            integer     NOT NULL,
    queues         text[]      NOT NULL DEFAULT '{}',
    metadata       jsonb       NOT NULL DEFAULT '{}',
    started_at     timestamptz NOT NULL DEFAULT now(),
    last_heartbeat timestamptz NOT NULL DEFAULT now(),
    waiting        boolean     NOT NULL DEFAULT true,
    stop_requested_at timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
