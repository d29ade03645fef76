"""What to claim next, decided without a database, a thread or a clock."""

import pytest

from django_stampeded.worker.claims import (
    LOOKS_AGAIN,
    MOST_AHEAD,
    Pace,
    Plan,
    Spell,
    ahead,
    came_full,
    deep_queues,
    plan,
    rest,
)


def asked(queues, *, turn=0, room=8, bounds=None, held=None, deep=()):
    return plan(queues, turn=turn, room=room, bounds=bounds or {}, held=held or {}, deep=frozenset(deep))


def test_nothing_is_held_beyond_the_threads_before_any_duration_is_known():
    assert ahead(None, threads=8) == 0


def test_long_jobs_are_claimed_one_for_each_thread():
    assert ahead(5.0, threads=8) == 0
    assert ahead(0.5, threads=8) == 0


@pytest.mark.parametrize(("mean", "jobs"), [(0.01, 32), (0.04, 8), (0.001, 320)])
def test_short_jobs_are_held_for_a_few_tens_of_milliseconds_of_work(mean, jobs):
    assert ahead(mean, threads=8) == jobs


def test_what_is_held_ahead_is_bounded_however_short_the_jobs_are():
    assert ahead(0.0, threads=1000) == MOST_AHEAD


def test_the_pace_follows_the_durations_and_forgets_old_ones():
    pace = Pace()
    assert pace.mean is None
    for _ in range(200):
        pace.observe(0.001)
    for _ in range(200):
        pace.observe(1.0)
    assert 0.9 < pace.mean < 1.0


def test_jobs_stuck_behind_others_count_as_a_slow_pace_at_once():
    pace = Pace()
    pace.observe(0.0001)
    pace.slow_down(2.0)
    assert ahead(pace.mean, threads=8) == 0


def test_without_room_or_queues_nothing_is_asked_for():
    assert asked(["a"], room=0) is None
    assert asked([], room=8) is None


def test_each_claim_starts_one_queue_further():
    firsts = [asked(["a", "b", "c"], turn=turn).queues[0] for turn in range(4)]
    assert firsts == ["a", "b", "c", "a"]


def test_every_queue_is_asked_in_every_claim():
    assert sorted(asked(["a", "b", "c"], turn=2).queues) == ["a", "b", "c"]


def test_two_deep_queues_share_the_room_and_a_shallow_one_may_use_it_all():
    found = asked(["a", "b", "c"], room=9, deep={"a", "b"})
    assert dict(zip(found.queues, found.limits, strict=True)) == {"a": 5, "b": 5, "c": 9}


def test_one_deep_queue_alone_may_use_all_the_room():
    assert asked(["a", "b"], room=9, deep={"a"}).limits == [9, 9]


def test_a_bound_leaves_what_is_not_yet_held_of_that_queue():
    found = asked(["mail", "other"], bounds={"mail": 5}, held={"mail": 3})
    assert dict(zip(found.queues, found.limits, strict=True)) == {"mail": 2, "other": 8}


def test_a_queue_at_its_bound_is_not_asked():
    assert asked(["mail", "other"], bounds={"mail": 5}, held={"mail": 5}).queues == ["other"]
    assert asked(["mail"], bounds={"mail": 5}, held={"mail": 5}) is None


def test_a_queue_that_gave_all_it_was_asked_for_is_deep():
    found = Plan(["a", "b"], [4, 8], 8)
    assert deep_queues(found, {"a": 4, "b": 1}, frozenset()) == {"a"}


def test_a_queue_that_gave_less_is_deep_no_more():
    assert deep_queues(Plan(["a"], [8], 8), {"a": 3}, frozenset({"a"})) == frozenset()


def test_a_queue_not_reached_stays_what_it_was():
    found = Plan(["a", "b", "c"], [8, 8, 8], 8)
    assert deep_queues(found, {"a": 8}, frozenset({"b"})) == {"a", "b"}


def test_a_queue_that_could_give_only_what_was_left_counts_as_deep_when_it_did():
    assert deep_queues(Plan(["a", "b"], [8, 8], 8), {"a": 5, "b": 3}, frozenset()) == {"b"}


def test_two_deep_queues_are_served_in_equal_parts_over_many_claims():
    served = {"a": 0, "b": 0}
    deep = frozenset()
    for turn in range(100):
        found = plan(["a", "b"], turn=turn, room=10, bounds={}, held={}, deep=deep)
        left, brought = found.limit, {}
        for queue, limit in zip(found.queues, found.limits, strict=True):
            brought[queue] = min(limit, left)
            left -= brought[queue]
            served[queue] += brought[queue]
        deep = deep_queues(found, brought, deep)
    assert served == {"a": 500, "b": 500}


def test_a_claim_is_full_when_a_queue_has_more_that_only_room_kept_us_from():
    found = asked(["a", "b"], room=4)
    assert came_full(found, frozenset({"a"}))
    assert not came_full(found, frozenset())


def test_a_queue_that_gave_what_its_bound_allows_does_not_make_a_claim_full():
    found = asked(["mail", "other"], bounds={"mail": 2})
    assert not came_full(found, frozenset({"mail"}))
    assert came_full(found, frozenset({"mail", "other"}))


def test_a_worker_waits_until_two_claims_in_a_row_came_full():
    spell = Spell()
    assert spell.waiting
    assert spell.claimed(full=True) is None
    assert spell.claimed(full=True) is False
    assert not spell.waiting


def test_not_waiting_is_announced_once_in_a_busy_spell():
    spell = Spell()
    told = [spell.claimed(full=True) for _ in range(50)]
    assert told.count(False) == 1
    assert told.count(None) == 49


def test_waiting_is_announced_with_the_first_short_claim_of_a_busy_spell():
    spell = Spell()
    spell.claimed(full=True)
    spell.claimed(full=True)
    assert spell.claimed(full=False) is True
    assert spell.claimed(full=False) is None


def test_light_load_announces_nothing():
    spell = Spell()
    assert [spell.claimed(full=False) for _ in range(10)] == [None] * 10
    spell.claimed(full=True)
    assert spell.claimed(full=False) is None


def test_after_the_announcement_the_worker_looks_at_once_and_then_ever_more_rarely():
    spell = Spell()
    spell.claimed(full=True)
    spell.claimed(full=True)
    spell.claimed(full=False)
    looks = [spell.next_look(1.0) for _ in range(len(LOOKS_AGAIN) + 2)]
    assert looks[0] == 0.0
    assert looks == sorted(looks)
    assert looks[-2:] == [1.0, 1.0]


def test_an_idle_worker_looks_at_the_poll_interval():
    assert Spell().next_look(0.7) == 0.7


def test_looking_again_never_takes_longer_than_the_poll_interval():
    spell = Spell()
    spell.claimed(full=True)
    spell.claimed(full=True)
    spell.claimed(full=False)
    assert max(spell.next_look(0.01) for _ in range(10)) == 0.01


@pytest.mark.parametrize(
    ("why", "given", "seconds"),
    [
        ("no room, or jobs that no thread takes", {"stuck": True}, 2.0),
        ("no room, though more is due", {"stuck": True, "full": True}, 2.0),
        ("more is due and there is room", {"full": True, "room": 1}, 0.0),
        ("more is due, and a job that ends will ring", {"full": True, "room": 0}, 5.0),
        ("more is due, whatever the next look was to be", {"full": True, "room": 0, "until_look": 0.1}, 5.0),
        ("the next job is due soon", {"until_look": 0.1}, 0.1),
        ("the next job is due late", {"until_look": 900.0}, 1.0),
        ("the next job is due already", {"until_look": -0.5}, -0.5),
    ],
)
def test_the_rest_between_two_looks_depends_on_what_is_worth_looking_for(why, given, seconds):
    usual = {"stuck": False, "full": False, "room": 0, "until_look": 9.0, "quiet": 1.0, "poll": 5.0, "patience": 2.0}
    assert rest(**(usual | given)) == seconds, why


def test_rushed_queues_come_first_and_get_all_the_room_but_for_each_fourth_turn():
    def asked(turn):
        deep = frozenset("abz")
        return plan(["a", "b", "z"], turn=turn, room=6, bounds={}, held={}, deep=deep, rushed=frozenset("z"))

    for turn in (1, 2, 3):
        assert (asked(turn).queues[0], asked(turn).limits[0]) == ("z", 6)
    assert (asked(4).queues, asked(4).limits) == (["b", "z", "a"], [2, 2, 2])
