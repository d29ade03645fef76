"""Measures draining a full queue of jobs that do nothing, with one worker process of eight threads.

The contender to beat works as many queues do: a connection for each thread, a claim and an acknowledgement for each
job. Both are measured by the jobs' own rows, from the first claim to the last completion.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from bench import server
from bench.enqueueing import enqueue_many
from bench.rounds import Line, Sizes, interleaved, rates

THREADS = 8
SECONDS = 240
SINGLY = "a connection a thread, single claims and acks"
ALONE = "runstampeded, without a batch"
IN_BATCH = "runstampeded, one batch"
WORKER = [
    *(sys.executable, "-m", "django", "runstampeded", "--drain", "--no-maintenance"),
    *("--queue", "bench", "--threads", str(THREADS), "--verbosity", "0"),
]


def drained(sizes: Sizes) -> list[Line]:
    """A freshly filled queue, and one whose statistics are up to date."""
    contenders = {
        SINGLY: partial(drain, [sys.executable, "-m", "bench.singly", str(THREADS)], sizes.drain),
        "runstampeded": partial(drain, WORKER, sizes.drain),
        "runstampeded, after ANALYZE": partial(drain, WORKER, sizes.drain, analyzed=True),
        "runstampeded, async def": partial(drain, WORKER, sizes.drain, coroutine=True),
    }
    reached = interleaved(contenders, sizes.rounds)
    return rates(reached, SINGLY)


def batched(sizes: Sizes) -> list[Line]:
    """The same jobs, of which one in a hundred is discarded, alone and as one batch with a callback."""
    contenders = {ALONE: partial(drain_mixed, sizes.batch), IN_BATCH: partial(drain_mixed, sizes.batch, in_batch=True)}
    return rates(interleaved(contenders, sizes.rounds), ALONE, {IN_BATCH: "≥ 0.8"})


def drain_mixed(count: int, *, in_batch: bool = False) -> float:
    """Lets a worker process run jobs of which one in a hundred is discarded; returns its jobs a second.

    Raises RuntimeError if a batch's callback did not come exactly once with the exact counts.
    """
    from bench.tasks import discarded, nothing
    from django_stampeded import Batch

    server.empty()
    batch = Batch("bench", on_complete=nothing.using(queue_name="callbacks").with_args(n=0)).open() if in_batch else None
    option = {} if batch is None else {"batch": batch.id}
    failing = max(1, count // 100)
    nothing.using(**option).enqueue_many({"n": n} for n in range(count - failing))
    discarded.using(**option).enqueue_many({} for _ in range(failing))
    if batch is not None:
        batch.seal()
    run_worker(WORKER)
    if batch is not None:
        told = server.value("SELECT jsonb_agg(meta #> '{batch,counts}')::text FROM stampeded_jobs WHERE queue = 'callbacks'")
        if json.loads(told or "null") != [{"completed": count - failing, "discarded": failing}]:
            raise RuntimeError(f"The callback came as {told}, not once with the exact counts.")
    seconds = server.value(
        "SELECT extract(epoch FROM max(finished_at) - min(claimed_at))::float FROM stampeded_jobs WHERE queue = 'bench'"
    )
    return count / seconds


def drain(command: list[str], count: int, *, analyzed: bool = False, coroutine: bool = False) -> float:
    """Fills the queue, lets a worker process empty it, and returns its jobs a second."""
    server.empty()
    if coroutine:
        from bench.tasks import nothing_async

        nothing_async.enqueue_many({"n": n} for n in range(count))
    else:
        enqueue_many(count)
    if analyzed:
        server.execute("ANALYZE stampeded_jobs")
    run_worker(command)
    return finished_rate(count)


def run_worker(command: list[str]) -> None:
    """Runs a worker process to its end; raises CalledProcessError, with what it said shown, when it fails."""
    subprocess.run(command, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)


def finished_rate(count: int) -> float:
    """Jobs a second from the first claim to the last completion; raises RuntimeError if one isn't completed."""
    completed = server.value("SELECT count(*) FROM stampeded_jobs WHERE state = 'completed'")
    if completed != count:
        raise RuntimeError(f"{completed} of {count} jobs were completed: look at what the worker said.")
    seconds = server.value("SELECT extract(epoch FROM max(finished_at) - min(claimed_at))::float FROM stampeded_jobs")
    return count / seconds
