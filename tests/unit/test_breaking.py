"""What a process decides about circuit breakers by itself: whose, by which rule, and how long a refused job waits."""

from datetime import timedelta

import pytest

from django_stampeded.breaking import MOST_TALLIED, Key, Rule, Tally, checked_rule, of_job, refusal_delay

API = Key("destination", "api")
RULE = Rule(period=10.0)


def test_a_destination_has_a_breaker_unless_setting_or_task_says_no():
    assert of_job("api", "t", None, True) == (API, Rule())
    assert of_job("api", "t", True, False) == (API, Rule())
    assert of_job("api", "t", None, False) is None
    assert of_job("api", "t", False, True) is None


def test_a_task_has_a_breaker_only_where_it_asks_for_one_and_no_destination_is_set():
    assert of_job(None, "t", None, True) is None
    assert of_job(None, "t", True, True) == (Key("task", "t"), Rule())
    assert of_job("api", "t", True, True) == (API, Rule())


def test_a_tasks_rule_differs_from_the_settings_only_where_it_says_so():
    found = of_job("api", "t", {"failures": 3}, {"failures": 5, "wait": 7.0})
    assert found == (API, Rule(failures=3, wait=7.0))


@pytest.mark.parametrize(
    "value", [None, 3, "on", {"failure": 1}, {"failures": 0}, {"failures": 1.5}, {"share": 2}, {"wait": True}]
)
def test_a_rule_that_is_none_is_refused(value):
    with pytest.raises(ValueError):
        checked_rule(value)


def test_durations_may_be_timedeltas():
    assert checked_rule({"wait": timedelta(minutes=1), "share": 1}) == {"wait": 60.0, "share": 1.0}


def test_successes_go_along_with_the_next_failure_once():
    tally = Tally()
    assert [tally.take(API, RULE, 0, 3, now) for now in (0.0, 1.0)] == [0, 0]
    assert tally.take(API, RULE, 1, 0, 2.0) == 6
    assert tally.take(API, RULE, 1, 0, 3.0) == 0


def test_successes_older_than_the_period_are_forgotten():
    tally = Tally()
    tally.take(API, RULE, 0, 3, 0.0)
    assert tally.take(API, RULE, 1, 0, 10.0) == 0


def test_the_tally_of_ever_new_destinations_does_not_grow_for_good():
    tally = Tally()
    for number in range(MOST_TALLIED + 5):
        tally.take(Key("destination", str(number)), RULE, 0, 1, 0.0)
    assert len(tally._unreported) <= MOST_TALLIED


@pytest.mark.parametrize("deferrals", [0, 1, 5, 32_767])
def test_a_refused_job_waits_for_the_probes_and_a_share_of_a_growing_spread(deferrals):
    for _ in range(50):
        assert 20 <= refusal_delay(RULE, 20.0, deferrals) <= 20 + min(30.0 * 2 ** min(deferrals, 10), 600)


def test_a_job_refused_until_somebody_resets_the_breaker_looks_again_after_the_longest_wait():
    assert 600 <= refusal_delay(RULE, None, 0) <= 630


def test_an_outage_of_an_hour_costs_a_job_few_of_its_deferrals():
    now, deferrals, opened, wait = 0.0, 0, 0.0, 30.0
    while now < 3600:
        while opened + wait <= now:  # a probe has failed meanwhile
            opened, wait = opened + wait, min(wait * 2, 600.0)
        now += refusal_delay(Rule(), opened + wait - now, deferrals)
        deferrals += 1
    assert deferrals <= 20
