-- What the charts show: now and then one row for each queue in which something is going on (stampeded_sample writes them). The
-- queue '' stands for all of them and has a row in every slot that was sampled; any other one without a row was idle then. The
-- counts are those of the moment; completed to failures are what has happened since the sample before, `seconds` earlier.
CREATE TABLE stampeded_samples (
    queue               text        NOT NULL,
    slot                bigint      NOT NULL,
    at                  timestamptz NOT NULL,
    seconds             real,
    available           bigint      NOT NULL,
    retryable           bigint      NOT NULL,
    executing           bigint      NOT NULL,
    oldest_waiting_secs real,
    completed           bigint      NOT NULL,
    discarded           bigint      NOT NULL,
    cancelled           bigint      NOT NULL,
    failures            jsonb       NOT NULL DEFAULT '{}',
    final_counts        bigint[]    NOT NULL,
    PRIMARY KEY (queue, slot)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX stampeded_samples_slot ON stampeded_samples (slot);
