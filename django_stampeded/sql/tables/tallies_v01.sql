-- What happened since the last sample and can't be seen in the counts: failures by their kind, and final jobs that were
-- deleted, as 'deleted completed' and so on. Appended as the counts are, so that nobody waits; consumed by the next sample.
CREATE TABLE stampeded_tallies (
    queue text   NOT NULL,
    what  text   NOT NULL,
    n     bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
