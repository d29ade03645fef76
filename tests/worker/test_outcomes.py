"""What the end of a job's body means, decided without a database, a thread or a clock."""

from datetime import timedelta

import pytest

from django_stampeded import Cancel, Discard, InvalidArguments, RetryIn, Snooze
from django_stampeded.states import FailureKind
from django_stampeded.worker.outcomes import (
    Failed,
    JobTimeout,
    Snoozed,
    of_bad_arguments,
    of_exception,
    of_unknown_task,
)
from django_stampeded.worker.retry_policy import RetryPolicy


def raised(exc, **kwargs):
    try:
        raise exc
    except BaseException as caught:
        return of_exception(caught, kwargs.pop("attempt", 1), **kwargs)


def test_an_exception_is_a_failure_whose_delay_the_row_decides():
    outcome = raised(ValueError("no such file"))
    assert outcome.kind is FailureKind.RAISED
    assert outcome.delay_ms is None
    assert outcome.error.startswith("ValueError: no such file")


@pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()])
def test_what_would_end_a_program_is_a_failure_of_the_job_alone(exc):
    assert raised(exc).kind is FailureKind.RAISED


def test_retry_in_sets_the_delay_and_keeps_the_reason():
    outcome = raised(RetryIn(timedelta(minutes=5), "the bank is closed"))
    assert outcome == Failed(FailureKind.RAISED, "RetryIn: the bank is closed", 300_000)


def test_snooze_puts_the_job_off_without_a_failure():
    assert raised(Snooze(1.5)) == Snoozed(1500)


def test_cancel_and_discard_end_the_job():
    assert raised(Cancel("withdrawn")) == Failed(FailureKind.CANCELLED, "Cancel: withdrawn")
    assert raised(Discard("no CSV")) == Failed(FailureKind.UNRECOVERABLE, "Discard: no CSV")


def test_an_outcome_without_a_reason_is_named():
    assert raised(Discard()).error == "Discard"


def test_a_reason_of_any_type_and_size_can_be_recorded():
    class Odd:
        def __str__(self):
            raise RuntimeError("no")

    assert raised(Cancel(Odd())).error == "Cancel: <not printable>"
    assert len(raised(Discard("x" * 10**6)).error) <= 4000
    assert "\x00" not in raised(Discard("a\x00b")).error


def test_a_timeout_is_a_failure_of_its_own_kind():
    assert raised(JobTimeout()).kind is FailureKind.TIMED_OUT
    assert "the job ran for longer than its timeout" in raised(JobTimeout()).error


def test_arguments_that_do_not_fit_are_unrecoverable_and_say_why():
    outcome = of_bad_arguments(InvalidArguments("Task 'a' is missing 'path': pass it by name."))
    assert outcome.kind is FailureKind.UNRECOVERABLE
    assert "is missing 'path'" in outcome.error


def test_a_back_off_that_fits_the_column_is_left_to_sql():
    assert RetryPolicy(base=32.0, longest=3600).delay_ms(3, ValueError()) is None


@pytest.mark.parametrize("attempt", [1, 2, 25, 1024, 32_767])
def test_a_longer_back_off_is_drawn_by_the_worker_within_its_cap(attempt):
    delay = RetryPolicy(base=60.0, longest=3600).delay_ms(attempt, ValueError())
    assert 0 <= delay <= min(3_600_000, 60_000 * 2 ** (attempt - 1))


def test_the_delay_of_a_task_with_a_long_back_off_goes_with_its_failure():
    outcome = raised(ValueError(), attempt=2, policy=RetryPolicy(base=60.0, longest=3600))
    assert 0 <= outcome.delay_ms <= 120_000


def test_an_explicit_delay_wins_over_the_back_off():
    assert raised(RetryIn(1), policy=RetryPolicy(base=60.0, longest=3600)).delay_ms == 1000


def test_an_unknown_task_is_put_off_ever_longer_and_never_beyond_ten_minutes():
    waits = [of_unknown_task(timedelta(seconds=age)).delay_ms for age in (-5, 0, 10, 60, 600, 10**7)]
    assert waits == [5_000, 5_000, 5_000, 30_000, 300_000, 600_000]
