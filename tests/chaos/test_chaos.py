"""Thousands of jobs while everything that can die is killed: none is lost, none is completed twice, all is explained.

CHAOS_SECONDS says how long the killing lasts (25 unless set), CHAOS_JOBS how many jobs there are (2,500 unless set), CHAOS_SEED
which order it takes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from django_stampeded.testing.postgres import LocalPostgres
from tests.acceptance.project import Process, Project, emptied, eventually
from tests.chaos.proxy import Proxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SECONDS = float(os.environ.get("CHAOS_SECONDS", "25"))
JOBS = int(os.environ.get("CHAOS_JOBS", "2500"))
SEED = int(os.environ.get("CHAOS_SEED", time.time_ns() % 1_000_000))
SUPERVISORS = 3
DEAD_AFTER_S = 4
COUNTERS = 16
FIRST = JOBS * 3 // 5
"""So many jobs are there before anything dies; the others come while it does."""

WITNESS = """
DROP TABLE IF EXISTS starts, moves, counters;
CREATE TABLE counters (id int PRIMARY KEY, value bigint NOT NULL DEFAULT 0);
CREATE TABLE starts (job uuid, attempt int, pid int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE moves (job uuid, attempt int, now_state text, kind text, at timestamptz DEFAULT clock_timestamp());
CREATE OR REPLACE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO moves VALUES (OLD.id, OLD.attempt, NEW.state, NEW.failure_kind);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER witness AFTER UPDATE OF state ON stampeded_jobs
    FOR EACH ROW WHEN (OLD.state = 'executing' AND NEW.state <> 'executing') EXECUTE FUNCTION witness();
"""


class Ordeal:
    """The project, the proxy in front of its server, and what is done to them."""

    def __init__(self, project: Project, server: LocalPostgres, proxy: Proxy, dice: random.Random) -> None:
        self.project = project
        self.server = server
        self.proxy = proxy
        self.dice = dice
        self.done: Counter[str] = Counter()
        self.jobs = 0
        head, _, name = project.url.rpartition("/")
        self.url = f"{head.rpartition(':')[0]}:{proxy.port}/{name}"
        self.supervisors: list[Process] = []

    def start_supervisor(self) -> None:
        flags = ("--processes=1", "--threads=4", "--grace-period=10")
        self.supervisors.append(self.project.manage("runstampeded", *flags, url=self.url, DEAD_AFTER=DEAD_AFTER_S))

    def children(self) -> list[int]:
        return [pid for supervisor in self.supervisors for pid in supervisor.children]

    def enqueue_up_to(self, total: int) -> None:
        """Insert jobs under ids of our own until there were so many, again where the server died before it took them."""
        rows = []
        for _ in range(total - self.jobs):
            seconds = round(self.dice.choices([0.002, 0.05, 1.0], [80, 17, 3])[0] * self.dice.uniform(0.5, 1.5), 4)
            kind = self.dice.choices(["plain", "atomic", "whole"], [3, 3, 4])[0]
            more = {"counter": self.dice.randint(1, COUNTERS)} if kind == "whole" else {"atomic": kind == "atomic"}
            task = "ordeal_whole" if kind == "whole" else "ordeal"
            rows.append((UUID(int=self.dice.getrandbits(128)), task, json.dumps({"seconds": seconds, **more})))
        self.jobs += len(rows)
        sql = """
            INSERT INTO stampeded_jobs (id, queue, task, args, max_attempts, max_interruptions, backoff_base_ms, backoff_max_ms)
            SELECT id, 'default', 'tests.testapp.tasks.' || task, args, 1000, 1000, 50, 200
              FROM unnest(%s::uuid[], %s::text[], %s::jsonb[]) AS job (id, task, args) ON CONFLICT DO NOTHING"""
        columns = [list(column) for column in zip(*rows, strict=True)]
        eventually(lambda: not rows or self.project.rows(sql, *columns) == [], "the server to take jobs")

    def kill_child(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> int | None:
        children = self.children()
        if not children:
            return None
        pid = self.dice.choice(children)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid

    def kill_supervisor(self) -> None:
        victim = self.supervisors.pop(self.dice.randrange(len(self.supervisors)))
        victim.send(signal.SIGKILL)
        victim.wait()
        self.start_supervisor()

    def kill_server(self) -> None:
        self.server.kill()
        time.sleep(self.dice.uniform(0, 2))
        self.server.start()

    def cut_connections(self) -> None:
        self.proxy.cut()

    def swallow_packets(self) -> None:
        self.proxy.swallow()
        time.sleep(self.dice.uniform(1, DEAD_AFTER_S + 3))
        self.proxy.deliver()

    def freeze_child(self) -> None:
        """Longer than it takes to be declared dead."""
        pid = self._signal(signal.SIGSTOP)
        time.sleep(DEAD_AFTER_S + 2)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def rage(self, seconds: float) -> None:
        """Do one thing after the other, each at least once."""
        deeds = [
            self.kill_child,
            self.kill_supervisor,
            self.kill_server,
            self.cut_connections,
            self.swallow_packets,
            self.freeze_child,
        ]
        begin = time.monotonic()
        until = begin + seconds
        todo = self.dice.sample(deeds, len(deeds))
        while todo or time.monotonic() < until:
            deed = todo.pop() if todo else self.dice.choice(deeds)
            share = min(1.0, (time.monotonic() - begin) / seconds)
            self.enqueue_up_to(FIRST + int(share * (JOBS - FIRST)))
            deed()
            self.done[deed.__name__.replace("_", " ")] += 1
            time.sleep(self.dice.uniform(0.2, 1.5))


@pytest.fixture
def ordeal(server: LocalPostgres, installed: str, tmp_path: Path) -> Iterator[Ordeal]:
    with emptied(Project(installed, tmp_path)) as project:
        project.rows(WITNESS)
        project.rows(f"INSERT INTO counters (id) SELECT generate_series(1, {COUNTERS})")
        proxy = Proxy(psycopg.conninfo.conninfo_to_dict(installed)["port"])
        try:
            yield Ordeal(project, server, proxy, random.Random(SEED))
        finally:
            proxy.close()
            project.end()
            project.rows("DROP TRIGGER witness ON stampeded_jobs; DROP TABLE starts, moves, counters; DROP FUNCTION witness")


def test_no_job_is_lost_or_completed_twice_whatever_dies(ordeal, capsys):
    begin = time.monotonic()
    ordeal.enqueue_up_to(FIRST)
    for _ in range(SUPERVISORS):
        ordeal.start_supervisor()
    eventually(lambda: ordeal.project.value("SELECT count(*) FROM stampeded_workers") >= SUPERVISORS)
    ordeal.rage(SECONDS)
    ordeal.enqueue_up_to(JOBS)
    rows, value = ordeal.project.rows, ordeal.project.value
    eventually(
        lambda: ordeal.project.states() == {"completed": ordeal.jobs}, f"{ordeal.jobs} jobs to end", timeout=240 + JOBS / 20
    )
    seconds = time.monotonic() - begin
    again = value("SELECT count(*) FROM (SELECT job FROM starts GROUP BY job HAVING count(*) > 1) AS twice")
    kinds = dict(rows("SELECT coalesce(kind, now_state), count(*) FROM moves WHERE now_state <> 'completed' GROUP BY 1"))
    with capsys.disabled():
        print(f"\nseed {SEED}: {ordeal.jobs} jobs in {seconds:.0f} s; {dict(ordeal.done)}")
        print(f"attempts that did not complete: {kinds}; jobs started more than once: {again}; lost: 0; completed twice: 0")
    completions = "SELECT count(*) FROM moves WHERE now_state = 'completed'"
    assert (value(completions), value(completions.replace("count(*)", "count(DISTINCT job)"))) == (ordeal.jobs, ordeal.jobs)
    unexplained = rows(
        "SELECT job, s.n, m.n FROM (SELECT job, count(*) AS n FROM starts GROUP BY job) AS s "
        "LEFT JOIN (SELECT job, count(*) AS n FROM moves WHERE now_state <> 'completed' GROUP BY job) AS m USING (job) "
        "WHERE s.n > 1 + coalesce(m.n, 0)"
    )
    assert unexplained == []
    assert rows("SELECT job, attempt FROM starts GROUP BY 1, 2 HAVING count(*) > 1") == [], "an attempt starts once"
    effects = rows(
        "SELECT coalesce(args ->> 'atomic', 'whole'), min(n), max(n) FROM (SELECT j.id, j.args, count(e.job) AS n "
        "FROM stampeded_jobs j LEFT JOIN effects e ON e.job = j.id GROUP BY j.id, j.args) AS job GROUP BY 1 ORDER BY 1"
    )
    assert effects[0][1] >= 1, "every job had its effect"
    assert effects[1] == ("true", 1, 1), "those with a checkpoint in the same transaction exactly once"
    assert effects[2] == ("whole", 1, 1), "and so those that are transactional"
    counted = "SELECT (args ->> 'counter')::int, count(*) FROM stampeded_jobs WHERE args ? 'counter' GROUP BY 1 ORDER BY 1"
    assert rows("SELECT id, value FROM counters ORDER BY id") == rows(counted), "whose counters are exact"
