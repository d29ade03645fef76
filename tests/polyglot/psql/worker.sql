-- A worker in SQL: psql "$DATABASE_URL" -v queue=default -f worker.sql
-- It claims up to ten jobs, works on them as a set, and leaves; run it again for more.
INSERT INTO stampeded_workers (hostname, pid, queues)
VALUES ('psql', pg_backend_pid(), ARRAY[:'queue']) RETURNING id AS worker \gset

CREATE TEMPORARY TABLE claimed AS
SELECT queue, id, task, args, attempt FROM stampeded_claim(:'queue', :'worker', 10);

SELECT job.id, upper(args->>'text') AS result, done.owned
FROM claimed AS job, stampeded_complete(job.queue, job.id, :'worker', job.attempt) AS done
WHERE task = 'text.upper';

SELECT job.id, failed.now_state
FROM claimed AS job,
     stampeded_fail(job.queue, job.id, :'worker', job.attempt, 'raised',
                    format('This worker has no task %s: add it to worker.sql.', job.task)) AS failed
WHERE task <> 'text.upper';

DELETE FROM stampeded_workers WHERE id = :'worker';
