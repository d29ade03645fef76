"""The outcomes that a job raises, and the checks of their delays."""

import pickle
from datetime import timedelta

import pytest

from django_stampeded.exceptions import (
    BaseOutcome,
    Cancel,
    Discard,
    InvalidArguments,
    RetryIn,
    Snooze,
    StampededError,
)


@pytest.mark.parametrize("outcome", [RetryIn, Snooze])
@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_is_given_as_seconds_or_timedelta(outcome, delay):
    raised = outcome(delay, "later")
    assert raised.delay == timedelta(seconds=90)
    assert raised.delay_ms == 90_000
    assert raised.reason == str(raised) == "later"


@pytest.mark.parametrize("outcome", [RetryIn, Snooze])
@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(days=-1), timedelta(days=3651), 10**400])
def test_a_delay_outside_of_ten_years_is_refused(outcome, delay):
    with pytest.raises(ValueError, match=f"{outcome.__name__} needs a delay"):
        outcome(delay)


@pytest.mark.parametrize("delay", [None, "5", True])
def test_a_delay_that_is_no_duration_is_refused(delay):
    with pytest.raises(ValueError, match="RetryIn needs a delay"):
        RetryIn(delay)


def test_no_delay_and_ten_years_are_both_allowed():
    assert RetryIn(0).delay_ms == 0
    assert Snooze(timedelta(days=3650)).delay == timedelta(days=3650)


@pytest.mark.parametrize("outcome", [RetryIn(1.5, "a"), Snooze(2), Cancel("b"), Discard("c")])
def test_an_outcome_survives_pickling(outcome):
    again = pickle.loads(pickle.dumps(outcome))
    assert type(again) is type(outcome)
    assert vars(again) == vars(outcome)


def test_outcomes_are_no_errors_of_the_package():
    for outcome in (RetryIn, Snooze, Cancel, Discard):
        assert issubclass(outcome, BaseOutcome)
        assert not issubclass(outcome, StampededError)


def test_an_invalid_argument_is_a_value_error_that_knows_which():
    error = InvalidArguments("args.x is NaN.", argument="args.x")
    assert isinstance(error, ValueError)
    assert error.argument == "args.x"
