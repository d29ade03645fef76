-- What operators have asked to be done to all jobs of a selection, and how far that is. A worker does it, portion after
-- portion; each portion and the position behind it commit together, so that whoever goes on does no job twice.
CREATE TABLE stampeded_bulk_operations (
    id          uuid        PRIMARY KEY DEFAULT uuidv7(),
    action      text        NOT NULL,
    actor       text        NOT NULL,
    via         text        NOT NULL,
    selection   jsonb       NOT NULL,
    parameters  jsonb       NOT NULL DEFAULT '{}',
    expected    bigint      NOT NULL,
    exact       boolean     NOT NULL,
    position    text        NOT NULL DEFAULT '',
    done        bigint      NOT NULL DEFAULT 0,
    skipped     bigint      NOT NULL DEFAULT 0,
    skips       jsonb       NOT NULL DEFAULT '[]',
    state       text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'finished', 'stopped')),
    queue       text,       -- of the job that does it
    job_id      uuid,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
