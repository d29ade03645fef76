-- What jobs returned, for those whose task keeps that.
CREATE TABLE stampeded_results (
    job_id     uuid        PRIMARY KEY,
    queue      text        NOT NULL,
    value      jsonb       NOT NULL,
    stored_at  timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

CREATE INDEX stampeded_results_expires_at ON stampeded_results (expires_at);
