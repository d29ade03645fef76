-- What operators did, and to what. Rows are only ever added.
CREATE TABLE stampeded_audit (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text        NOT NULL,
    action text        NOT NULL,
    queue  text,
    job_id uuid,
    detail jsonb       NOT NULL DEFAULT '{}'
);

CREATE INDEX stampeded_audit_job ON stampeded_audit (job_id, id) WHERE job_id IS NOT NULL;
