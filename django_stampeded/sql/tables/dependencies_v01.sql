-- Which job waits for which. A row goes when the job waited for is final and the one that waits has heard of it; a job that
-- waits is scheduled for a day that never comes (stampeded_waits_until) until its last row has gone.
CREATE TABLE stampeded_dependencies (
    parent_queue text NOT NULL,
    parent_id    uuid NOT NULL,
    child_queue  text NOT NULL,
    child_id     uuid NOT NULL,
    due_at       timestamptz NOT NULL DEFAULT now(),      -- when the job that waits would be due by itself
    on_discard   text NOT NULL DEFAULT 'fail' CHECK (on_discard IN ('fail', 'run')),
    missed       boolean NOT NULL DEFAULT false,          -- its end was seen when the one that waits was locked: look again soon
    PRIMARY KEY (parent_id, child_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX stampeded_dependencies_child ON stampeded_dependencies (child_id);
CREATE INDEX stampeded_dependencies_missed ON stampeded_dependencies (parent_id) WHERE missed;
