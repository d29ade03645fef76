-- Jobs that belong together, and what to enqueue when they are through. How many of them are in which state is kept as for
-- the queues (stampeded_count_deltas): appended by whoever changes it, added up by whoever asks.
CREATE TABLE stampeded_batches (
    id          uuid        PRIMARY KEY DEFAULT uuidv7(),
    name        text        NOT NULL CHECK (name <> '' AND char_length(name) <= 255),
    parent_id   uuid,                                                     -- a batch that is through only after this one
    on_complete jsonb       CHECK (on_complete ?& ARRAY['queue', 'task']), -- a job: columns of stampeded_jobs by name
    on_success  jsonb       CHECK (on_success ?& ARRAY['queue', 'task']),
    on_failure  jsonb       CHECK (on_failure ?& ARRAY['queue', 'task']),
    meta        jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(meta) = 'object'),
    created_at  timestamptz NOT NULL DEFAULT now(),
    sealed_at   timestamptz,             -- all jobs are in, but for those that its own jobs still add
    failed_at   timestamptz,             -- its first job was discarded or cancelled, and on_failure enqueued
    finished_at timestamptz,             -- all jobs were final, and on_complete enqueued
    counts      jsonb,                   -- how many jobs were in which final state then
    succeeded   boolean,                 -- whether all of them were completed, and those of the batches within
    callback_error text                  -- why a callback could not be enqueued
);

CREATE INDEX stampeded_batches_open ON stampeded_batches (id) WHERE finished_at IS NULL;
CREATE INDEX stampeded_batches_parent ON stampeded_batches (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX stampeded_batches_finished ON stampeded_batches (finished_at) WHERE finished_at IS NOT NULL;
