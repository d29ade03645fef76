"""The planner's verdicts as a worker follows them."""

from __future__ import annotations

import pytest

from tests.testapp import tasks
from tests.worker.support import drain, eventually, real_transactions, rows, states, value, working

pytestmark = real_transactions


def verdict(queue: str, word: str, age: int = 0) -> None:
    rows(
        "INSERT INTO stampeded_queue_policies (queue, verdict, reason, decided_at) "
        "VALUES (%s, %s, 'why', now() - %s * interval '1 second')",
        queue,
        word,
        age,
    )


@pytest.mark.parametrize("queues", ["", "held,other"])
def test_a_queue_that_is_held_is_not_asked_until_the_verdict_is_taken_back(effects, queues):
    verdict("held", "hold")
    rows("UPDATE stampeded_queue_policies SET decided_at = now() + interval '1 hour'")
    held = tasks.noop.using(queue_name="held").enqueue_many([{}] * 3)
    tasks.noop.using(queue_name="other").enqueue_many([{}] * 5)
    with working(queues):
        eventually(lambda: states().get("completed") == 5)
        tasks.noop.using(queue_name="other").enqueue()
        eventually(lambda: states().get("completed") == 6)
        assert value("SELECT count(*) FROM stampeded_jobs WHERE queue = 'held' AND attempt = 0") == len(held)
        rows("UPDATE stampeded_queue_policies SET verdict = 'steady'")
        eventually(lambda: states() == {"completed": 9})


def test_a_stale_verdict_is_ignored(effects):
    verdict("held", "hold", age=31)
    tasks.noop.using(queue_name="held").enqueue()
    with working():
        eventually(lambda: states() == {"completed": 1})


def test_draining_takes_no_notice_of_what_is_held(effects):
    verdict("held", "hold")
    tasks.noop.using(queue_name="held").enqueue()
    drain()
    assert states() == {"completed": 1}


def test_a_rushed_queue_is_asked_before_the_others(effects):
    verdict("z_rushed", "rush")
    rows("UPDATE stampeded_queue_policies SET decided_at = now() + interval '1 hour'")
    for queue in ("a", "b", "z_rushed"):
        tasks.effect.using(queue_name=queue).enqueue_many([{"n": n, "seconds": 0.02} for n in range(30)])
    with working(threads=1):
        eventually(lambda: states() == {"completed": 90})
    order = [queue for (queue,) in rows("SELECT queue FROM stampeded_jobs ORDER BY claimed_at, id")]
    last = max(index for index, queue in enumerate(order) if queue == "z_rushed")
    assert last < 75, "the rushed queue must be through well before the others"
    assert order[:last].count("a") + order[:last].count("b") > 0, "and these must go on meanwhile"
