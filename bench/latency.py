"""Measures how soon an idle worker starts a job: from the commit of its enqueueing to the first line of its body."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

from bench import server
from bench.rounds import Line, Sizes

EVERY = 0.1
START_SECONDS = 60.0
WORKER = [
    *(sys.executable, "-m", "django", "runstampeded"),
    *("--queue", "bench", "--threads", "8", "--verbosity", "0"),
]


LISTENER = [sys.executable, "-m", "bench.listener"]
BARE = "LISTEN and one claim, bare"


def started(sizes: Sizes) -> list[Line]:
    """The spread of the delays of single jobs, a tenth of a second apart, in rounds by turns."""
    delays: dict[str, list[float]] = {BARE: [], "runstampeded": []}
    for _ in range(sizes.rounds):
        for name, command in ((BARE, LISTENER), ("runstampeded", WORKER)):
            with TemporaryDirectory() as folder, idle_worker(command, Path(folder) / "starts") as notes:
                delays[name] += measure(notes, sizes.latency)
    cuts = {name: quantiles(each, n=100, method="inclusive") for name, each in delays.items()}
    return [
        Line(
            what=f"{name}, p{percent}",
            figure=f"{each[percent - 1] * 1000:.2f} ms",
            ratio=f"{each[percent - 1] / cuts[BARE][percent - 1]:.2f}",
        )
        for name, each in cuts.items()
        for percent in (50, 95, 99)
    ]


def idle(sizes: Sizes) -> list[Line]:
    """What a worker with nothing to do asks of the server, counted in the server's own log."""
    with TemporaryDirectory() as folder, idle_worker(WORKER, Path(folder) / "starts"), server.logged() as statements:
        before = statements()
        time.sleep(sizes.idle_seconds)
        rate = (statements() - before) / sizes.idle_seconds
    return [Line("statements of a worker with maintenance and nothing to do", f"{rate:.1f} /s", "", "< 2")]


@contextmanager
def idle_worker(command: list[str], notes: Path) -> Iterator[Path]:
    """A worker process that has proved, by running a job, that it is up."""
    server.empty()
    notes.touch()
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        measure(notes, 1)
        time.sleep(1)
        yield notes
    finally:
        worker.terminate()
        worker.wait()


def measure(notes: Path, count: int) -> list[float]:
    """Enqueues jobs one after the other and returns each one's delay in seconds."""
    from bench.tasks import note_start

    already = len(starts(notes))
    committed = {}
    for n in range(already, already + count):
        note_start.enqueue(n=n, path=str(notes))
        committed[n] = time.monotonic_ns()
        time.sleep(EVERY)
    deadline = time.monotonic() + START_SECONDS
    while len(begun := starts(notes)) < already + count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{already + count - len(begun)} jobs did not start: look at what the worker said.")
        time.sleep(EVERY)
    return [(begun[n] - committed[n]) / 1e9 for n in committed]


def starts(notes: Path) -> dict[int, int]:
    return {int(n): int(began) for n, began in (line.split() for line in notes.read_text().splitlines())}
