"""Three hosts, each in a network of its own: one is cut off for longer than it takes to be declared dead, and comes back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.project import Project, emptied, eventually
from tests.chaos.proxy import Proxy
from tests.chaos.test_chaos import WITNESS

pytestmark = pytest.mark.slow

HOSTS = (1, 2, 3)
NETWORK = "10.213.77"


def ip(*words: str) -> None:
    """Run ip. Raises CalledProcessError where that is not allowed."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[str]:
    """A bridge and three hosts on it; the bridge's address."""
    try:
        ip("link", "add", "stbr", "type", "bridge")
    except (OSError, subprocess.CalledProcessError) as exc:
        pytest.skip(f"needs the right to make networks: {exc}")
    try:
        ip("addr", "add", f"{NETWORK}.1/24", "dev", "stbr")
        ip("link", "set", "stbr", "up")
        for n in HOSTS:
            ip("netns", "add", f"sthost{n}")
            ip("link", "add", f"stveth{n}", "type", "veth", "peer", "name", "eth0", "netns", f"sthost{n}")
            ip("link", "set", f"stveth{n}", "master", "stbr", "up")
            ip("-n", f"sthost{n}", "addr", "add", f"{NETWORK}.{10 + n}/24", "dev", "eth0")
            ip("-n", f"sthost{n}", "link", "set", "eth0", "up")
        yield f"{NETWORK}.1"
    finally:
        for n in HOSTS:
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", f"sthost{n}")
        ip("link", "del", "stbr")


@pytest.fixture
def project(installed: str, tmp_path: Path) -> Iterator[Project]:
    with emptied(Project(installed, tmp_path)) as project:
        project.rows(WITNESS)
        yield project
        project.end()
        project.rows("DROP TRIGGER witness ON stampeded_jobs; DROP TABLE starts, moves, counters; DROP FUNCTION witness")


def test_a_host_that_was_cut_off_comes_back_and_overwrites_nothing(network, project):
    """Cases C15 and C137 between real hosts."""
    target = psycopg.conninfo.conninfo_to_dict(project.url)
    proxy = Proxy(int(target["port"]), network)
    url = f"postgres://{target['user']}@{network}:{proxy.port}/{target['dbname']}"
    try:
        workers = {
            n: project.manage(
                *("runstampeded", "--processes=1", "--threads=2"),
                url=url,
                before=("ip", "netns", "exec", f"sthost{n}"),
                NODE_NAME=f"host{n}",
                DEAD_AFTER=4,
            )
            for n in HOSTS
        }
        eventually(lambda: project.value("SELECT count(*) FROM stampeded_workers") == 3, "three hosts")
        project.rows(
            "INSERT INTO stampeded_jobs (queue, task, args, max_interruptions) SELECT 'default', "
            "'tests.testapp.tasks.ordeal', jsonb_build_object('seconds', 0.3, 'atomic', true), 100 FROM generate_series(1, 200)"
        )
        held = "SELECT count(*) FROM stampeded_jobs JOIN stampeded_workers w ON w.id = claimed_by WHERE hostname = 'host1'"
        eventually(lambda: project.value(held) >= 2)
        ip("link", "set", "stveth1", "down")
        taken = "SELECT count(*) FROM stampeded_jobs WHERE errors -> 0 ->> 'kind' = 'worker_missing'"
        eventually(lambda: project.value(taken) >= 2, "its jobs to be taken back")
        time.sleep(3)
        ip("link", "set", "stveth1", "up")
        eventually(lambda: project.states() == {"completed": 200}, timeout=120)
        project.enqueue("effect", 60, "jsonb_build_object('n', n, 'seconds', 0.2)")
        here = "SELECT count(*) FROM stampeded_jobs j JOIN stampeded_workers w ON w.id::text = attempted_by[1] "
        eventually(lambda: project.value(here + "WHERE hostname = 'host1' AND j.task LIKE '%%.effect'"), "it to work again")
        eventually(lambda: project.states() == {"completed": 260})
        completions = project.rows("SELECT count(*), count(DISTINCT job) FROM moves WHERE now_state = 'completed'")
        assert completions == [(260, 260)]
        effects = "SELECT min(n), max(n) FROM (SELECT count(*) AS n FROM effects WHERE n = 1 GROUP BY job) AS job"
        assert project.rows(effects.replace("WHERE n = 1 ", "WHERE n = 1 AND job IN (SELECT job FROM starts) ")) == [(1, 1)]
        assert [worker.stop() for worker in workers.values()] == [0, 0, 0]
    finally:
        proxy.close()
