-- The ledger that makes each occurrence of a schedule fire once.
CREATE TABLE stampeded_cron_occurrences (
    id               bigserial   PRIMARY KEY,
    cron_key         text        NOT NULL REFERENCES stampeded_schedules (key) ON DELETE CASCADE,
    occurrence_token text        NOT NULL,
    job_id           uuid,
    enqueued_at      timestamptz NOT NULL DEFAULT now(),
    planned_at       timestamptz, -- when it was due; enqueued_at tells how late it was dealt with
    skipped          text,        -- why there is no job
    UNIQUE (cron_key, occurrence_token)
);

CREATE INDEX stampeded_cron_occurrences_enqueued_at ON stampeded_cron_occurrences (enqueued_at);
