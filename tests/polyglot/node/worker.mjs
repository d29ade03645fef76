// A worker in Node: DATABASE_URL=postgres://… node worker.mjs [--drain] QUEUE…
import os from "node:os";
import pg from "pg";

const handlers = {
  "text.upper": async ({ text }) => text.toUpperCase(),
  "text.refuse": async ({ reason }) => { throw new Error(reason); },
};

const drain = process.argv.includes("--drain"); // leave when nothing is due
const queues = process.argv.slice(2).filter((word) => word !== "--drain");
const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
const one = async (sql, ...values) => (await db.query(sql, values)).rows[0];
await db.connect();

const { id: worker } = await one(
  "INSERT INTO stampeded_workers (hostname, pid, queues) VALUES ($1, $2, $3) RETURNING id",
  os.hostname(), process.pid, queues);
const { channel } = await one("SELECT stampeded_channel() AS channel");
await db.query(`LISTEN ${db.escapeIdentifier(channel)}`);
const beat = setInterval(() => one("SELECT stampeded_heartbeat($1)", worker), 5000);

let stopping = false, news = false, wake = () => {};
const notice = () => { news = true; wake(); };
db.on("notification", notice);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => { stopping = true; notice(); });
const newsOrASecond = () => new Promise((resolve) => { wake = resolve; setTimeout(resolve, news ? 0 : 1000); });

async function run(job) {
  const lease = [job.queue, job.id, worker, job.attempt];
  const touch = setInterval(() => one("SELECT stampeded_touch($1, $2, $3, $4)", ...lease), 5000);
  try {
    if (!handlers[job.task]) throw new Error(`This worker has no task ${job.task}: add it to handlers.`);
    const result = await handlers[job.task](job.args);
    const done = await one("SELECT owned FROM stampeded_complete($1, $2, $3, $4)", ...lease);
    console.log(JSON.stringify({ job: job.id, result, owned: done?.owned ?? false }));
  } catch (error) { // the delay is left to the database: back-off with jitter, then discarded
    await one("SELECT stampeded_fail($1, $2, $3, $4, 'raised', $5)", ...lease, error.stack);
    console.log(JSON.stringify({ job: job.id, error: error.message }));
  } finally {
    clearInterval(touch);
  }
}

while (!stopping) {
  news = false;
  const jobs = [];
  for (const queue of queues) jobs.push(await one("SELECT * FROM stampeded_claim($1, $2)", queue, worker));
  const claimed = jobs.filter(Boolean);
  await Promise.all(claimed.map(run));
  if (claimed.length === 0 && drain) break;
  if (claimed.length === 0) await newsOrASecond();
}
clearInterval(beat);
await db.query("DELETE FROM stampeded_workers WHERE id = $1", [worker]);
await db.end();
