"""A task's own retry policy: what is worth another attempt, and when; whatever goes wrong in it, no job is lost."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic
from types import SimpleNamespace
from uuid import uuid4

import pytest

from django_stampeded import Cancel, Discard, RetryIn, Snooze, registry, task
from django_stampeded.functions import ClaimedJob
from django_stampeded.states import FailureKind
from django_stampeded.worker.interrupt import Guard, Timekeeper
from django_stampeded.worker.isolation import Isolation
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Failed, JobCancelled, JobTimeout, Snoozed, of_exception
from django_stampeded.worker.retry_policy import RetryPolicy
from tests.worker.support import column, drain, real_transactions

CONNECTION, MISSING, VALUE = ConnectionError("x"), FileNotFoundError("x"), ValueError("x")


def group(*members):
    return ExceptionGroup("several", members)


@pytest.mark.parametrize(
    ("policy", "given_up", "tried_again"),
    [
        ({}, [], [CONNECTION, VALUE, group(VALUE)]),
        ({"discard_on": (ValueError,)}, [VALUE, UnicodeError("x"), group(VALUE)], [CONNECTION, group(VALUE, CONNECTION)]),
        ({"retry_on": (OSError,)}, [VALUE, SystemExit(1), group(VALUE)], [CONNECTION, MISSING, group(VALUE, CONNECTION)]),
        ({"retry_on": ()}, [VALUE, CONNECTION], []),
        (
            {"retry_on": (OSError,), "discard_on": (FileNotFoundError,)},
            [VALUE, MISSING, group(VALUE, MISSING), group(group(MISSING))],
            [CONNECTION, group(MISSING, group(CONNECTION))],
        ),
        ({"retry_on": (OSError,), "discard_on": (OSError,)}, [CONNECTION, MISSING, VALUE], []),
        ({"discard_on": (ExceptionGroup,)}, [group(CONNECTION)], [CONNECTION]),
        ({"retry_on": (ExceptionGroup,)}, [CONNECTION], [group(CONNECTION)]),
    ],
)
def test_what_is_given_up_and_what_is_tried_again(policy, given_up, tried_again):
    policy = RetryPolicy(**policy)
    assert [exc for exc in given_up if not policy.gives_up(exc)] == []
    assert [exc for exc in tried_again if policy.gives_up(exc)] == []


def test_what_a_job_raises_on_purpose_and_a_timeout_go_before_the_policy():
    policy = RetryPolicy(retry_on=(), discard_on=(BaseException,), delay=lambda attempt, exc: 99)
    kinds = [of_exception(exc, 1, policy) for exc in (RetryIn(1), Cancel(), Discard(), JobTimeout(), JobCancelled())]
    assert [outcome.kind for outcome in kinds] == [
        FailureKind.RAISED, FailureKind.CANCELLED, FailureKind.UNRECOVERABLE, FailureKind.TIMED_OUT, FailureKind.RAISED,
    ]  # fmt: skip
    assert kinds[0].delay_ms == 1000 and kinds[3].delay_ms is None
    assert of_exception(Snooze(1), 1, policy) == Snoozed(1000)


def test_what_is_given_up_is_unrecoverable_with_its_own_text():
    outcome = of_exception(VALUE, 1, RetryPolicy(discard_on=(ValueError,)))
    assert outcome.kind is FailureKind.UNRECOVERABLE and outcome.error.startswith("ValueError: x")


@pytest.mark.parametrize(("given", "delay_ms"), [(2, 2000), (0, 0), (0.25, 250), (timedelta(minutes=1), 60_000), (None, None)])
def test_a_function_says_the_delay_from_attempt_and_exception(given, delay_ms):
    asked = []
    policy = RetryPolicy(delay=lambda *args: asked.append(args) or given)
    outcome = of_exception(VALUE, 3, policy)
    assert isinstance(outcome, Failed) and outcome.delay_ms == delay_ms
    assert asked == [(3, VALUE)]


def test_where_the_function_leaves_it_to_the_back_off_a_long_base_is_drawn_here():
    policy = RetryPolicy(base=60.0, delay=lambda attempt, exc: None)
    assert 0 <= policy.delay_ms(2, VALUE) <= 120_000


LONG = RetryPolicy(base=60, longest=3600)


def lease():
    job = ClaimedJob(*[None] * len(ClaimedJob._fields))
    return Lease(job._replace(id=uuid4(), queue="q", task="t", attempt=1), uuid4(), 0.0)


def test_a_job_that_was_killed_at_its_timeout_waits_by_a_long_base_too():
    guard = Guard()

    class Killed:
        """A process that is killed as soon as it runs a job."""

        def wait_ready(self):
            return True

        def run(self, lease, request):
            assert guard.interrupt(lease, JobTimeout)

        def kill(self): ...

        def end(self):
            return 137

    isolation = Isolation("default")
    isolation._take = Killed
    outcome = isolation.run(lease(), 1.0, guard, LONG)
    assert outcome.kind is FailureKind.TIMED_OUT and 0 <= outcome.delay_ms <= 60_000


def test_a_job_that_was_given_up_waits_by_a_long_base_too():
    stuck, guard = lease(), Guard()
    guard.open(stuck, 0.0, LONG)
    guard.sent = True  # and nothing came of it
    desk = SimpleNamespace(crew=[SimpleNamespace(guard=guard)], settle=lambda lease, outcome: ended.append(outcome))
    ended: list[Failed] = []
    assert Timekeeper(desk).run_once(monotonic() + 1) == 1
    (outcome,) = ended
    assert outcome.kind is FailureKind.TIMED_OUT and 0 <= outcome.delay_ms <= 60_000


@pytest.mark.parametrize("nonsense", ["soon", -1, float("nan"), float("inf"), timedelta(days=-1), True, 10**12, object()])
def test_what_is_no_delay_is_complained_of_and_the_back_off_used(nonsense):
    problems = []
    assert RetryPolicy(delay=lambda attempt, exc: nonsense).delay_ms(1, VALUE, problems.append) is None
    assert "backoff needs a delay" in str(problems[0])


@pytest.mark.parametrize("exc", [KeyError("x"), SystemExit(3), KeyboardInterrupt()])
def test_a_function_that_raises_is_complained_of_and_the_back_off_used(exc):
    def broken(attempt, exception):
        raise exc

    problems = []
    assert RetryPolicy(delay=broken).delay_ms(1, VALUE, problems.append) is None
    assert problems == [exc]


@pytest.fixture
def own_registry(monkeypatch):
    """Tasks declared in the test go with it."""
    for name in ("_tasks", "_names"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


def selective(kind):
    raise {"missing": FileNotFoundError, "network": ConnectionError, "other": KeyError}[kind]("x")


async def async_selective(kind):
    selective(kind)


@real_transactions
@pytest.mark.parametrize("body", [selective, async_selective], ids=["def", "async def"])
@pytest.mark.parametrize("kind", ["missing", "network", "other"])
def test_the_policy_of_a_task_decides_in_its_worker(effects, own_registry, body, kind):
    made = task(name="policy", max_attempts=3, retry_on=OSError, discard_on=FileNotFoundError, backoff=lambda *_: 0)(body)
    job = made.enqueue(kind=kind)
    drain()
    assert column("state", job) == "discarded"
    assert (column("attempt", job), column("failure_kind", job)) == (
        (3, "raised") if kind == "network" else (1, "unrecoverable")
    )


@real_transactions
def test_a_broken_function_for_the_delay_loses_no_job_and_is_told_of_in_the_log(effects, own_registry, caplog):
    made = task(name="broken", max_attempts=2, backoff_base=0.001, backoff=lambda *_: "soon")(selective)
    job = made.enqueue(kind="network")
    with caplog.at_level(logging.ERROR, "django_stampeded.worker"):
        drain()
    assert (column("attempt", job), column("state", job)) == (2, "discarded")
    said = [record.getMessage() for record in caplog.records if "backoff function" in record.getMessage()]
    assert len(said) == 1 and "backoff needs a delay in seconds or a timedelta, not str" in said[0]
