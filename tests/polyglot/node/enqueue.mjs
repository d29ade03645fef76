// Enqueues a job from Node: DATABASE_URL=postgres://… node enqueue.mjs QUEUE TASK '{"name": "value"}'
import pg from "pg";

const [queue, task, args = "{}"] = process.argv.slice(2);
const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
await db.query("BEGIN"); // with your own rows in the same transaction, the job exists if and only if they do
const { rows } = await db.query(
  "INSERT INTO stampeded_jobs (queue, task, args) VALUES ($1, $2, $3) RETURNING id", [queue, task, args]);
await db.query("COMMIT");
console.log(rows[0].id);
await db.end();
