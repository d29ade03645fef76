-- Enqueues a job: psql "$DATABASE_URL" -v queue=default -v task=text.upper -v args='{"text": "hello"}' -f enqueue.sql
BEGIN; -- with your own rows in the same transaction, the job exists if and only if they do
INSERT INTO stampeded_jobs (queue, task, args) VALUES (:'queue', :'task', :'args') RETURNING id;
COMMIT;
