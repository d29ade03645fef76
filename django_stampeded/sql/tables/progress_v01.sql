-- How far jobs say that they are, for people to look at: a row for each job that reports, written about once a second while
-- it does and kept until the job goes. Not in the job's own row, which the job's own transaction may hold. No index but the
-- key, and room on each page, so that each report stays on its page.
CREATE TABLE stampeded_progress (
    job_id     uuid        PRIMARY KEY,
    attempt    smallint    NOT NULL,
    done       bigint      NOT NULL CHECK (done >= 0),
    total      bigint      CHECK (total >= 0),
    message    text        NOT NULL DEFAULT '' CHECK (char_length(message) <= 255),
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
