"""Jobs pulled by a program that runs them itself: one outcome each, and one clear answer to each mistake."""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_stampeded import (
    Cancel,
    InvalidArguments,
    InvalidOption,
    Lease,
    LeaseFinished,
    LeaseLost,
    Puller,
    PullerClosed,
    RetryIn,
    chain,
    enqueue,
    enqueue_many,
    registry,
)
from tests.testapp import tasks
from tests.worker.support import column, eventually, real_transactions, rows, states, value

pytestmark = real_transactions
WAIT_S = 60.0


@pytest.fixture
def puller() -> Iterator[Puller]:
    with Puller("pulled") as puller:
        yield puller


def one(puller: Puller, **args: Any) -> Lease:
    """A lease of a new job."""
    job = enqueue_one(**args)
    lease = puller.next(WAIT_S)
    assert lease is not None and lease.id == job.id
    return lease


def enqueue_one(**args: Any) -> Any:
    return tasks.noop.using(queue_name="pulled", max_attempts=5, backoff_base=0.001, backoff_max=0.001).enqueue(**args)


def again(puller: Puller) -> Lease:
    lease = puller.next(WAIT_S)
    assert lease is not None
    return lease


def failures(lease: Lease) -> list[tuple[str, int]]:
    return [(each["kind"], each["attempt"]) for each in json.loads(column("errors", lease))]


def test_a_lease_shows_the_job_as_any_language_wrote_it(puller):
    with connection.cursor() as cur:
        cur.execute(
            "INSERT INTO stampeded_jobs (queue, task, args, meta, tenant_id, priority, destination) "
            "VALUES ('pulled', 'invoice.parse', '{\"path\": \"a.pdf\"}', '{\"ruby\": 1}', 'acme', 3, 'printer')"
        )
    lease = again(puller)
    assert (lease.task, lease.queue, lease.args, lease.meta) == ("invoice.parse", "pulled", {"path": "a.pdf"}, {"ruby": 1})
    assert (lease.attempt, lease.max_attempts, lease.checkpointed) == (1, 25, None)
    assert (lease.tenant, lease.priority, lease.destination) == ("acme", 3, "printer")
    assert column("state", lease) == "executing"
    lease.complete()


def test_an_outcome_is_on_record_when_its_call_returns(puller):
    lease = one(puller)
    lease.complete()
    assert column("state", lease) == "completed"
    lease = one(puller)
    lease.discard("not a PDF")
    assert (column("state", lease), column("failure_kind", lease)) == ("discarded", "unrecoverable")
    assert "not a PDF" in column("last_error", lease)
    lease = one(puller)
    lease.snooze(timedelta(hours=1))
    assert (column("state", lease), column("attempt", lease)) == ("available", 0)
    lease = one(puller)
    lease.fail("out of paper", retry_in=3600)
    assert column("state", lease) == "retryable" and column("last_error", lease) == "out of paper"
    assert value("SELECT scheduled_at > now() + interval '59 minutes' FROM stampeded_jobs WHERE id = %s", lease.id)


def test_a_failure_is_retried_as_a_workers_and_a_release_is_not_charged(puller):
    lease = one(puller)
    lease.fail(ValueError("no\x00t yet"))
    second = again(puller)
    assert (second.id, second.attempt) == (lease.id, 2) and failures(lease) == [("raised", 1)]
    second.release()
    third = again(puller)
    assert (third.id, third.attempt) == (lease.id, 2)
    third.complete()
    assert "ValueError" in column("last_error", lease)


def test_a_result_is_kept_for_whoever_enqueued_the_job(puller):
    job = enqueue_one()
    lease = again(puller)
    for wrong in ({1, 2}, "x" * 70_000):
        with pytest.raises(InvalidArguments):
            lease.complete(wrong)
    lease.complete({"pages": 12})
    assert job.result() == {"pages": 12}
    first, second = chain(
        tasks.add.using(queue_name="pulled").with_args(x=1, y=2), tasks.noop.using(queue_name="pulled")
    ).enqueue()
    again(puller).complete(3)
    child = again(puller)
    assert child.id == second.id and child.parent_results == [3] and first.result() == 3
    child.complete()


def test_a_checkpoint_and_a_touch_go_on_record_and_the_next_attempt_finds_the_first(puller):
    lease = one(puller)
    lease.checkpoint(cursor=7)
    before = column("heartbeat_at", lease)
    assert lease.touch() and column("heartbeat_at", lease) > before
    lease.fail("later", retry_in=0)
    lease = again(puller)
    assert lease.checkpointed == {"cursor": 7}
    lease.complete()


def test_a_lease_has_steps_and_progress_too(puller):
    lease = one(puller)
    assert lease.step("charge", str, 7) == "7"
    lease.progress(1, 2, "charged")
    eventually(lambda: rows("SELECT done, message FROM stampeded_progress") == [(1, "charged")], "its progress")
    lease.fail("later", retry_in=0)
    lease = again(puller)
    assert lease.step("charge", pytest.fail, "it was charged twice") == "7"
    lease.complete()


OUTCOMES = {
    "complete": lambda lease: lease.complete(),
    "fail": lambda lease: lease.fail("x"),
    "discard": lambda lease: lease.discard("x"),
    "release": lambda lease: lease.release(),
    "snooze": lambda lease: lease.snooze(1),
    "touch": lambda lease: lease.touch(),
    "checkpoint": lambda lease: lease.checkpoint(1),
    "with": lambda lease: lease.__enter__(),
    "step": lambda lease: lease.step("charge", pytest.fail, "it was charged"),
}


def test_a_lease_takes_one_outcome_and_says_what_it_was_given(puller):
    lease = one(puller)
    lease.complete()
    for outcome in OUTCOMES.values():
        with pytest.raises(LeaseFinished, match="it was completed before. Give a lease one outcome"):
            outcome(lease)
    assert column("state", lease) == "completed" and failures(lease) == []


def test_of_many_threads_that_finish_a_lease_at_once_one_does(puller):
    lease = one(puller)
    start, answers = threading.Barrier(6), []

    def finish(n: int) -> None:
        start.wait()
        try:
            (lease.complete if n % 2 else lease.release)()
            answers.append("done")
        except LeaseFinished:
            answers.append("refused")

    together(finish, 6)
    assert sorted(answers) == ["done"] + ["refused"] * 5


def together(work: Any, number: int) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("verb", ["complete", "fail", "discard", "release", "snooze"])
def test_the_outcome_of_a_job_that_was_taken_back_is_refused(puller, verb):
    lease = one(puller)
    rows("UPDATE stampeded_jobs SET attempt = attempt + 1 WHERE id = %s", lease.id)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="no longer this attempt's"):
            OUTCOMES[verb](lease)
    assert lease.lost and column("state", lease) == "executing"


def test_a_lease_whose_job_is_cancelled_is_told_so(puller):
    lease = one(puller)
    rows("SELECT stampeded_cancel('pulled', %s)", lease.id)
    eventually(lambda: lease.cancelled, "the cancellation to be known")
    assert lease.lost
    with pytest.raises(LeaseLost, match="it was cancelled elsewhere"):
        lease.complete()
    assert column("state", lease) == "cancelled"


def test_a_dropped_lease_goes_back_as_an_interruption(puller):
    lease = one(puller)
    id = lease.id
    del lease
    gc.collect()
    lease = again(puller)
    assert (lease.id, lease.attempt) == (id, 2)
    assert failures(lease) == [("worker_exited", 1)] and column("interruptions", lease) == 1
    assert "dropped without an outcome" in column("last_error", lease)
    lease.complete()


def test_a_block_that_raises_fails_its_job_and_lets_the_error_pass(puller):
    lease = one(puller)
    with pytest.raises(ValueError, match="bad"), lease:
        raise ValueError("bad")
    assert failures(lease) == [("raised", 1)] and "ValueError: bad" in column("last_error", lease)


def test_an_outcome_raised_in_a_block_ends_there(puller):
    lease = one(puller)
    with lease:
        raise RetryIn(3600, "closed")
    assert column("state", lease) == "retryable"
    lease = one(puller)
    with lease:
        raise Cancel("withdrawn")
    assert column("state", lease) == "cancelled"


def test_a_block_without_an_outcome_is_an_interruption_and_so_is_the_end_of_the_program(puller, caplog):
    lease = one(puller)
    with lease:
        pass
    eventually(lambda: failures(lease) == [("worker_exited", 1)])
    assert "ended without an outcome" in caplog.text
    with pytest.raises(LeaseFinished, match="it was left before"):
        lease.complete()
    other = again(puller)
    with pytest.raises(KeyboardInterrupt), other:
        raise KeyboardInterrupt
    eventually(lambda: column("interruptions", other) == 2)


def test_closing_interrupts_the_leases_given_out_and_releases_the_others():
    for _ in range(3):
        enqueue_one()
    puller = Puller(["pulled"], max_leases=1)
    lease = again(puller)
    puller.close()
    assert failures(lease) == [("worker_exited", 1)]
    assert value("SELECT count(*) FROM stampeded_jobs WHERE state = 'available' AND attempt = 0") == 2
    assert value("SELECT count(*) FROM stampeded_workers") == 0
    for outcome in OUTCOMES.values():
        with pytest.raises(LeaseLost, match="its Puller was closed"):
            outcome(lease)
    with pytest.raises(PullerClosed, match="make a new one"):
        puller.next(1)
    assert list(puller) == []
    puller.close()


def test_a_lease_given_out_may_end_in_the_grace_of_closing():
    puller = Puller("pulled")
    lease = one(puller)
    closing = threading.Thread(target=puller.close, args=(WAIT_S,))
    closing.start()
    eventually(lambda: puller._session.desk.closed)
    lease.complete()
    closing.join(WAIT_S)
    assert not closing.is_alive() and column("state", lease) == "completed"


def test_a_forgotten_puller_hands_everything_back_but_not_while_a_lease_of_it_is_in_use():
    puller = Puller("pulled")
    lease = one(puller)
    del puller
    gc.collect()
    lease.complete()
    assert column("state", lease) == "completed"
    del lease
    gc.collect()
    eventually(lambda: value("SELECT count(*) FROM stampeded_workers") == 0, "the puller to leave")


def test_a_stopped_puller_ends_its_loops_and_keeps_its_leases(puller):
    lease = one(puller)
    loops = [threading.Thread(target=list, args=(puller,)) for _ in range(3)]
    for loop in loops:
        loop.start()
    puller.stop()
    for loop in loops:
        loop.join(WAIT_S)
        assert not loop.is_alive()
    lease.complete()
    assert column("state", lease) == "completed"


def test_a_call_without_a_job_ends_with_its_timeout(puller):
    assert puller.next(0) is None and puller.next(timedelta(milliseconds=20)) is None


def test_asking_without_waiting_brings_the_job_in_the_end(puller):
    job = enqueue_one()
    lease = eventually(lambda: puller.next(0))
    assert lease.id == job.id
    lease.complete()


def test_no_more_is_held_than_allowed_and_nothing_that_nobody_asked_for():
    enqueue_many(tasks.noop.using(queue_name="pulled"), [{}] * 10)
    with Puller("pulled", max_leases=3) as puller:
        leases = [again(puller) for _ in range(3)]
        assert puller.next(0.3) is None
        assert states() == {"executing": 3, "available": 7}
        leases.pop().complete()
        leases.append(again(puller))
        assert puller.next(0.3) is None
        assert states() == {"executing": 3, "available": 6, "completed": 1}
        for lease in leases:
            lease.release()


def test_a_job_that_python_cannot_read_is_discarded_and_the_next_one_given(puller):
    depth = 3000
    rows(
        "INSERT INTO stampeded_jobs (queue, task, args) VALUES ('pulled', 'deep', %s::jsonb)",
        '{"a": ' + "[" * depth + "]" * depth + "}",
    )
    one(puller).complete()
    assert states() == {"discarded": 1, "completed": 1}


def test_a_puller_is_one_worker_and_does_not_survive_a_fork(puller):
    lease = one(puller)
    assert rows("SELECT queues, metadata ->> 'puller' FROM stampeded_workers") == [(["pulled"], "true")]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for use in (lambda: puller.next(1), lambda: list(puller), lease.complete, lease.touch):
            try:
                use()
                said.append("no error")
            except PullerClosed as exc:
                said.append(str(exc))
        puller.close()
        os.write(writer, "|".join(said).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        answers = pipe.read().split("|")
    assert len(answers) == 4 and all("from which this one was forked: make another Puller here" in each for each in answers)
    lease.complete()
    assert column("state", lease) == "completed"


def test_an_outcome_is_recorded_though_every_connection_of_the_puller_breaks(puller):
    lease = one(puller)
    lease.touch()
    broken = rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'stampeded %'")
    assert broken
    lease.complete()
    assert column("state", lease) == "completed"
    one(puller).complete()


@pytest.mark.parametrize("max_leases", [0, 1001, True, "8"])
def test_a_puller_of_no_leases_is_refused(max_leases):
    with pytest.raises(InvalidOption, match="from 1 to 1000"):
        Puller(max_leases=max_leases)


@pytest.mark.parametrize("queues", [[], "", [""], ["a", None]])
def test_a_puller_of_no_queues_is_refused(queues):
    with pytest.raises(InvalidOption, match="queues must be names"):
        Puller(queues)


def test_a_task_by_name_reaches_a_puller_of_every_queue():
    job = enqueue("pdf.render", path="a.pdf")
    with Puller() as puller:
        lease = again(puller)
        assert lease.id == job.id and lease.args == {"path": "a.pdf"}
        lease.complete()


def test_the_retry_policy_of_a_task_of_this_program_holds_unless_the_call_says_when(puller, monkeypatch):
    task = registry.get(tasks.noop.name)
    monkeypatch.setitem(task.__dict__, "discard_on", (ValueError,))
    lease = one(puller)
    lease.fail(ValueError("no"))
    assert (column("state", lease), column("failure_kind", lease)) == ("discarded", "unrecoverable")
    lease = one(puller)
    lease.fail(ValueError("not yet"), retry_in=3600)
    assert (column("state", lease), column("failure_kind", lease)) == ("retryable", "raised")
