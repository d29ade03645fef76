"""Everything works through PgBouncer in transaction mode, by polling. Here is what there is no direct counterpart of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.pooler import PROGRAM, pooling
from tests.acceptance.project import eventually

pytestmark = [pytest.mark.slow, pytest.mark.direct, pytest.mark.skipif(PROGRAM is None, reason="needs pgbouncer")]


@pytest.fixture
def pooled(installed: str) -> Iterator[str]:
    """A pooler with fewer server connections than the workers have."""
    with pooling(installed, size=2) as url:
        yield url


def test_jobs_run_through_a_pooler_that_pools_transactions(project, pooled):
    """Cases C21 and C72: no prepared statements, no LISTEN, and a cancellation that still arrives."""
    project.enqueue("effect", 300)
    workers = [project.manage("runstampeded", "--threads=4", url=pooled) for _ in range(2)]
    eventually(lambda: project.states() == {"completed": 300})
    assert project.rows("SELECT count(*), count(DISTINCT n) FROM effects") == [(300, 300)]
    polling = "SELECT count(*) FROM stampeded_workers WHERE metadata->>'notifications' = 'polling only'"
    eventually(lambda: project.value(polling) == 2)
    project.enqueue("effect", 10)
    eventually(lambda: project.states() == {"completed": 310})
    project.enqueue("until_told", 1, "'{}'")
    eventually(lambda: project.states().get("executing"))
    project.rows("SELECT stampeded_cancel(queue, id, 'enough') FROM stampeded_jobs WHERE state = 'executing'")
    eventually(lambda: any("was cancelled elsewhere" in worker.output for worker in workers))
    for worker in workers:
        assert "Polling only" in worker.output
        assert "prepared statement" not in worker.output
        assert "Traceback" not in worker.output
        assert worker.stop() == 0
    assert project.states() == {"completed": 310, "cancelled": 1}
