"""The operator service: each act does what it says, once, and leaves its audit row; or changes nothing and says why."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from django_stampeded import actions
from django_stampeded.models import AuditEntry, Job, QueueCount, QueueLimit, QueuePolicy, Schedule

pytestmark = pytest.mark.django_db

ANN = actions.Actor("ann", via="admin")


def audit() -> list[tuple[Any, ...]]:
    return list(AuditEntry.objects.order_by("id").values_list("actor", "action", "queue", "job_id", "detail"))


@pytest.mark.parametrize(
    ("act", "state", "now"),
    [
        ("retry", "discarded", "available"),
        ("retry", "cancelled", "available"),
        ("retry", "completed", "available"),
        ("retry", "retryable", "retryable"),
        ("run_now", "available", "available"),
        ("run_now", "retryable", "retryable"),
        ("cancel", "available", "cancelled"),
        ("cancel", "executing", "cancelled"),
        ("discard", "retryable", "discarded"),
        ("discard", "executing", "discarded"),
        ("delete", "available", ""),
        ("delete", "discarded", ""),
    ],
)
def test_an_act_changes_the_state_and_is_audited(make_job: Any, act: str, state: str, now: str) -> None:
    job = make_job(state=state, attempt=1)
    outcome = actions.JOB_ACTIONS[act]("mail", job.pk, actor=ANN)
    assert (outcome.done, outcome.was, outcome.now, outcome.reason) == (True, state, now, "")
    left = Job.objects.filter(pk=job.pk).first()
    assert (left.state if left else "") == now
    assert audit() == [("ann", act, "mail", job.pk, {"via": "admin", "was": state} | ({"now": now} if now else {}))]


@pytest.mark.parametrize(
    ("act", "state", "reason"),
    [
        ("retry", "executing", "it is running"),
        ("retry", "available", "it waits to run already"),
        ("run_now", "completed", "only a waiting job"),
        ("run_now", "executing", "only a waiting job"),
        ("cancel", "cancelled", "it is cancelled already"),
        ("discard", "completed", "it is completed already"),
        ("delete", "executing", "it is running; cancel it first"),
        ("delete", "claimed", "it is running; cancel it first"),
    ],
)
def test_an_act_that_does_not_fit_changes_nothing_and_says_why(make_job: Any, act: str, state: str, reason: str) -> None:
    job = make_job(state=state, attempt=1)
    outcome = actions.JOB_ACTIONS[act]("mail", job.pk, actor=ANN)
    assert (outcome.done, outcome.was) == (False, state)
    assert reason in outcome.reason
    assert Job.objects.get(pk=job.pk).state == state
    assert audit() == []


@pytest.mark.parametrize("act", list(actions.JOB_ACTIONS))
def test_an_act_on_a_job_that_is_gone_or_in_another_queue_says_so(make_job: Any, act: str) -> None:
    job = make_job()
    extra = {"move": {"to": "bulk"}, "set_priority": {"priority": 3}}.get(act, {})
    for queue, job_id in (("mail", uuid4()), ("other", job.pk)):
        outcome = actions.JOB_ACTIONS[act](queue, job_id, actor=ANN, **extra)
        assert not outcome.done and "no such job" in outcome.reason
    assert audit() == []


def test_a_job_with_no_attempts_left_can_be_claimed_again_after_a_retry(make_job: Any) -> None:
    job = make_job(state="discarded", attempt=1, max_attempts=1, interruptions=1, failure_kind="raised", last_error="x")
    assert actions.retry("mail", job.pk, actor=ANN).done
    job.refresh_from_db()
    assert (job.state, job.finished_at, job.failure_kind) == ("available", None, None)
    assert job.attempt < job.max_attempts


def test_a_stuck_available_job_without_attempts_can_be_retried(make_job: Any) -> None:
    job = make_job(attempt=3, max_attempts=3)
    assert actions.retry("mail", job.pk, actor=ANN).done
    job.refresh_from_db()
    assert job.attempt < job.max_attempts


def test_the_second_of_two_clicks_does_nothing_even_after_the_job_has_run_again(make_job: Any) -> None:
    job = make_job(state="discarded", attempt=3, max_attempts=3)
    seen = actions.mark(job)
    assert actions.retry("mail", job.pk, actor=ANN, seen=seen).done
    Job.objects.filter(pk=job.pk).update(state="completed", attempt=4, finished_at=timezone.now())
    second = actions.retry("mail", job.pk, actor=ANN, seen=seen)
    assert not second.done and "changed since" in second.reason
    assert len(audit()) == 1


def test_the_reason_is_kept_with_the_job_and_in_the_audit(make_job: Any) -> None:
    job = make_job()
    assert actions.cancel("mail", job.pk, actor=ANN, reason="  wrong\x00 customer " + "x" * 1000).done
    job.refresh_from_db()
    assert "wrong customer" in job.errors[-1]["message"]
    assert audit()[0][4]["reason"].startswith("wrong customer") and len(audit()[0][4]["reason"]) <= actions.LONGEST_REASON


def test_a_moved_job_keeps_its_id_and_arguments_and_the_counts_follow(make_job: Any) -> None:
    job = make_job(args={"a": 1}, priority=3)
    outcome = actions.move("mail", job.pk, "slash/queue", actor=ANN)
    assert (outcome.done, outcome.queue) == (True, "slash/queue")
    moved = Job.objects.get(pk=job.pk)
    assert (moved.queue, moved.args, moved.priority) == ("slash/queue", {"a": 1}, 3)
    assert set(QueueCount.objects.values_list("queue", "state", "n")) == {("slash/queue", "available", 1)}
    assert audit()[0][4]["to"] == "slash/queue"


@pytest.mark.parametrize(
    ("to", "reason"), [("", "1 to 255"), ("x" * 256, "1 to 255"), ("a\x00", "1 to 255"), ("mail", "already")]
)
def test_a_job_is_not_moved_to_a_queue_that_cannot_be(make_job: Any, to: str, reason: str) -> None:
    outcome = actions.move("mail", make_job().pk, to, actor=ANN)
    assert not outcome.done and reason in outcome.reason


def test_a_move_into_a_queue_that_holds_the_dedup_slot_is_refused_and_nothing_is_lost(make_job: Any) -> None:
    job = make_job(dedup_scope="acct:1")
    make_job(queue="bulk", dedup_scope="acct:1")
    outcome = actions.move("mail", job.pk, "bulk", actor=ANN)
    assert not outcome.done and "dedup slot" in outcome.reason
    assert Job.objects.get(pk=job.pk).queue == "mail"
    assert audit() == []


def test_deleting_a_job_frees_its_dedup_slot_and_its_count(make_job: Any) -> None:
    job = make_job(dedup_scope="acct:1")
    assert actions.delete("mail", job.pk, actor=ANN).done
    make_job(dedup_scope="acct:1")
    assert list(QueueCount.objects.values_list("queue", "state", "n")) == [("mail", "available", 1)]


def test_many_jobs_each_get_their_own_outcome(make_job: Any) -> None:
    jobs = [make_job(state="discarded") for _ in range(20)]
    running = make_job(state="executing", attempt=1)
    pairs = [("mail", job.pk) for job in jobs]
    pairs[5:5] = [("mail", running.pk), ("mail", uuid4()), ("odd\x00queue", jobs[0].pk)]
    report = actions.on_each("retry", pairs, actor=ANN)
    assert (report.done, report.skipped, report.finished) == (20, 3, True)
    assert [skip.id for skip in report.skips][0] == running.pk
    assert all(skip.reason for skip in report.skips)
    assert Job.objects.filter(state="available").count() == 20
    assert len(audit()) == 20


def test_a_bulk_act_stops_when_its_time_is_up_and_can_go_on(make_job: Any) -> None:
    pairs = [("mail", make_job(state="discarded").pk) for _ in range(3)]
    report = actions.on_each("retry", pairs, actor=ANN, seconds=0)
    assert (report.done, report.skipped, report.finished) == (0, 0, False)
    assert actions.on_each("retry", pairs, actor=ANN).done == 3


def test_the_deed_and_its_audit_row_commit_together_or_not_at_all(make_job: Any) -> None:
    job = make_job(state="discarded")
    with pytest.raises(RuntimeError), transaction.atomic():
        assert actions.retry("mail", job.pk, actor=ANN).done
        raise RuntimeError
    assert Job.objects.get(pk=job.pk).state == "discarded"
    assert audit() == []


def test_a_refused_act_leaves_the_surrounding_transaction_usable(make_job: Any) -> None:
    job = make_job(dedup_scope="acct:1")
    make_job(queue="bulk", dedup_scope="acct:1")
    with transaction.atomic():
        actions.move("mail", job.pk, "bulk", actor=ANN)
        actions.cancel("mail", uuid4(), actor=ANN)
        assert actions.cancel("mail", job.pk, actor=ANN).done
    assert Job.objects.get(pk=job.pk).state == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_a_job_whose_row_another_transaction_holds_is_not_waited_for(make_job: Any) -> None:
    job = make_job(state="executing", attempt=1)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=job.pk)
            held.set()
            let_go.wait(30)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        outcome = actions.cancel("mail", job.pk, actor=ANN)
        assert not outcome.done and "a transaction holds it" in outcome.reason
    finally:
        let_go.set()
        holder.join()
    assert actions.cancel("mail", job.pk, actor=ANN).done


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_retry_a_job_once(make_job: Any) -> None:
    job = make_job(state="discarded", attempt=3, max_attempts=3)
    seen, outcomes, barrier = actions.mark(job), [], threading.Barrier(2)

    def click() -> None:
        barrier.wait(30)
        outcomes.append(actions.retry("mail", job.pk, actor=ANN, seen=seen))
        connections.close_all()

    clicks = [threading.Thread(target=click) for _ in range(2)]
    for thread in clicks:
        thread.start()
    for thread in clicks:
        thread.join()
    assert sorted(outcome.done for outcome in outcomes) == [False, True]
    assert len(audit()) == 1


@pytest.mark.parametrize("queue", ["mail", "a/b", "..", "日本", "q'\"<b>", "a b?x=1#y", "x" * 255])
def test_a_queue_of_any_name_is_paused_and_resumed(queue: str) -> None:
    actions.pause(queue, actor=ANN, reason="deploy")
    policy = QueuePolicy.objects.get(pk=queue)
    assert policy.paused_at is not None and policy.paused_reason == "deploy"
    actions.resume(queue, actor=ANN)
    policy.refresh_from_db()
    assert policy.paused_at is None
    assert [(row[1], row[2]) for row in audit()] == [("pause", queue), ("resume", queue)]


@pytest.mark.parametrize("queue", ["", "x" * 256, "a\x00b"])
def test_a_queue_whose_name_cannot_be_is_refused_in_one_sentence(queue: str) -> None:
    for act in (actions.pause, actions.resume):
        with pytest.raises(ValueError, match="1 to 255 characters"):
            act(queue, actor=ANN)
    assert audit() == []


def test_limits_of_a_queue_are_set_and_cleared_without_touching_the_verdict() -> None:
    QueuePolicy.objects.create(queue="mail", verdict="rush", reason="late")
    actions.change_policy("mail", {"max_running": 3}, actor=ANN)
    actions.change_policy("mail", {"max_running": None, "max_wait_secs": 60}, actor=ANN)
    policy = QueuePolicy.objects.get(pk="mail")
    assert (policy.max_running, policy.max_wait_secs, policy.verdict, policy.reason) == (None, 60, "rush", "late")
    assert [row[4] for row in audit()] == [
        {"via": "admin", "max_running": 3},
        {"via": "admin", "max_running": None, "max_wait_secs": 60},
    ]
    with pytest.raises(ValueError, match="no limit named verdict"):
        actions.change_policy("mail", {"verdict": 1}, actor=ANN)


def test_a_policy_is_changed_part_by_part() -> None:
    actions.change_policy("mail", {"rate_limit": 30, "rate_period_secs": 1, "fair_tenants": True}, actor=ANN)
    actions.change_policy("mail", {"rate_limit": 20, "keep_completed_secs": 0}, actor=ANN)
    policy = QueuePolicy.objects.get(pk="mail")
    assert (policy.rate_limit, policy.rate_period_secs, policy.fair_tenants, policy.keep_completed_secs) == (20, 1, True, 0)


def test_a_queue_that_keeps_jobs_for_a_time_of_its_own_gets_a_partition() -> None:
    actions.change_policy("mail", {"keep_discarded_secs": 60}, actor=ANN)
    with connection.cursor() as cursor:
        cursor.execute("SELECT stampeded_partition_of('mail') IS NOT NULL")
        assert cursor.fetchone() == (True,)


@pytest.mark.parametrize(
    ("queue", "changes", "said"),
    [
        ("mail", {"rate_limit": 3}, "both rate_limit and rate_period_secs"),
        ("mail", {"max_running": 0}, "from 1 to"),
        ("mail", {"max_running": True}, "from 1 to"),
        ("mail", {"keep_completed_secs": -1}, "from 0 to"),
        ("mail", {"max_running": 2**31}, "from 1 to"),
        ("mail", {"fair_tenants": None}, "True or False"),
        ("*", {"max_running": 3}, "can only be paused"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_one_sentence(queue: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        actions.change_policy(queue, changes, actor=ANN)
    assert audit() == [] and not QueuePolicy.objects.exists()


def test_a_limit_is_made_changed_and_removed() -> None:
    actions.change_limit("mail", "tenant", None, {"max_running": 2}, actor=ANN)
    actions.change_limit("mail", "tenant", "acme", {"rate_limit": 5, "rate_period_secs": 60}, actor=ANN)
    actions.change_limit("mail", "tenant", None, {"max_running": 3}, actor=ANN)
    found = QueueLimit.objects.order_by("value").values_list("scope", "value", "max_running", "rate_limit")
    assert list(found) == [("tenant", "acme", None, 5), ("tenant", None, 3, None)]
    actions.change_limit("mail", "tenant", "acme", {"rate_limit": None, "rate_period_secs": None}, actor=ANN)
    assert QueueLimit.objects.count() == 1
    assert [(row[1], row[2]) for row in audit()] == [("change_limit", "mail")] * 4


@pytest.mark.parametrize(
    ("scope", "value", "changes", "said"),
    [
        ("task", None, {"max_running": 1}, "tenant or a destination or a key"),
        ("tenant", "", {"max_running": 1}, "1 to 255"),
        ("tenant", None, {"rate_limit": 1}, "both"),
        ("tenant", None, {"fair_tenants": 1}, "no limit named fair_tenants"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_in_one_sentence(scope: str, value: str | None, changes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        actions.change_limit("mail", scope, value, changes, actor=ANN)
    assert audit() == [] and not QueueLimit.objects.exists()


def test_a_pause_ends_at_a_time_to_come() -> None:
    until = timezone.now() + timedelta(hours=1)
    actions.pause("mail", actor=ANN, until=until)
    assert QueuePolicy.objects.get(pk="mail").paused_until == until
    for past in (timezone.now() - timedelta(seconds=1), datetime(2099, 1, 1)):
        with pytest.raises(ValueError, match="time to come"):
            actions.pause("mail", actor=ANN, until=past)


def test_a_schedule_is_paused_and_resumed_by_its_key() -> None:
    Schedule.objects.create(key="nightly/1", queue="mail", task="t", interval_secs=60)
    assert actions.pause_schedule("nightly/1", True, actor=ANN)
    assert Schedule.objects.get().paused
    assert actions.pause_schedule("nightly/1", False, actor=ANN)
    assert not Schedule.objects.get().paused
    assert not actions.pause_schedule("gone", True, actor=ANN)
    assert [row[1] for row in audit()] == ["pause_schedule", "resume_schedule"]


def test_pruning_deletes_what_is_old_enough_in_batches_and_tells_how_many(make_job: Any) -> None:
    for state in ("completed", "discarded", "cancelled"):
        for _ in range(3):
            make_job(state=state, finished_at=timezone.now() - timedelta(days=3))
    make_job(state="completed", finished_at=timezone.now())
    make_job()
    pruned = actions.prune(timedelta(days=1), timedelta(days=7), actor=ANN, limit=2)
    assert pruned == 3
    assert actions.prune(timedelta(days=1), timedelta(days=2), actor=ANN, limit=2) == 6
    assert Job.objects.count() == 2
    assert [row[4]["pruned"] for row in audit()] == [3, 6]


def test_nobody_can_change_or_delete_the_audit(make_job: Any) -> None:
    actions.pause("mail", actor=ANN)
    entry = AuditEntry.objects.get()
    for statement in ("UPDATE stampeded_audit SET actor = 'bob'", "DELETE FROM stampeded_audit"):
        with pytest.raises(Exception, match="(?i)cannot (update|delete)"), transaction.atomic():
            connection.cursor().execute(statement)
    entry.refresh_from_db()
    assert entry.actor == "ann"
