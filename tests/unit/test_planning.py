"""The planner's verdicts: who rushes, who is held for whom, and that nobody starves."""

from django_stampeded.planning import HOLD, RUSH, STEADY, QueueFigures, decide

TOGETHER = [frozenset({"mail", "other"})]


def verdicts(*figures: QueueFigures, workers=TOGETHER) -> dict[str, str]:
    return {queue: decision.verdict for queue, decision in decide(figures, workers).items()}


def mail(waited, **more):
    return QueueFigures("mail", 10, waited, **more)


def test_a_queue_rushes_once_its_oldest_job_has_waited_longer_than_it_may():
    assert verdicts(mail(10.0)) == {"mail": STEADY}
    assert verdicts(mail(10.1)) == {"mail": RUSH}
    assert decide([mail(10.6)], TOGETHER)["mail"].reason == "its oldest job has waited 11 s, and 10 s is what it may"


def test_a_rush_goes_on_until_the_wait_is_half_of_what_it_may_be():
    assert verdicts(mail(5.1, verdict=RUSH)) == {"mail": RUSH}
    assert verdicts(mail(5.0, verdict=RUSH)) == {"mail": STEADY}
    assert verdicts(mail(None, verdict=RUSH)) == {"mail": STEADY}


def test_queues_that_share_workers_with_an_overdue_one_are_held_while_they_can_wait():
    assert verdicts(mail(21.0), QueueFigures("other", 100, 50.0)) == {"mail": RUSH, "other": HOLD}
    assert verdicts(mail(21.0), QueueFigures("other", 100, None)) == {"mail": RUSH, "other": HOLD}
    assert verdicts(mail(21.0), QueueFigures("other", 100, 50.1)) == {"mail": RUSH, "other": STEADY}
    assert verdicts(mail(20.0), QueueFigures("other", 100, 0.0)) == {"mail": RUSH, "other": STEADY}


def test_nobody_is_held_who_shares_no_worker():
    apart = [frozenset({"mail"}), frozenset({"other"})]
    assert verdicts(mail(21.0), QueueFigures("other", 100), workers=apart)["other"] == STEADY
    assert verdicts(mail(21.0), QueueFigures("other", 100), workers=[frozenset({"*"})])["other"] == HOLD


def test_a_queue_that_promises_nothing_is_never_held_and_never_rushes():
    assert verdicts(mail(100.0), QueueFigures("other", None, 0.0), QueueFigures("third", None, 9e9))["other"] == STEADY
    assert verdicts(QueueFigures("other", None, 9e9, verdict=RUSH)) == {"other": STEADY}


def test_a_queue_that_nobody_may_claim_from_neither_rushes_nor_has_others_held():
    assert set(verdicts(mail(100.0, blocked=True), QueueFigures("other", 100)).values()) == {STEADY}


def test_two_overdue_queues_do_not_hold_each_other():
    assert set(verdicts(mail(100.0), QueueFigures("other", 10, 100.0)).values()) == {RUSH}
