"""Django's Tasks API on top of jobs: what its documentation promises, and how a job of it looks to others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_stampeded import InvalidArguments, registry
from tests.worker.support import drain, real_transactions, rows, states, value

compat = pytest.importorskip("django_stampeded.compat")
pytestmark = real_transactions

BACKEND = "django_stampeded.backend.StampededBackend"
TASKS = {
    "default": {"BACKEND": BACKEND},
    "stampeded": {
        "BACKEND": BACKEND,
        "QUEUES": [],
        "OPTIONS": {"max_attempts": 2, "backoff_base": 0.001, "backoff_max": 0.001},
    },
    "whole": {"BACKEND": BACKEND, "OPTIONS": {"transactional": True, "max_attempts": 1}},
    "strict": {"BACKEND": BACKEND, "OPTIONS": {"timeout": 600, "retry_on": [KeyError], "backoff_base": 60}},
}


@pytest.fixture
def shop(transactional_db: None) -> Iterator[ModuleType]:
    with override_settings(TASKS=TASKS):
        from tests.backend import shop

        yield shop


@pytest.fixture
def heard(shop: ModuleType) -> Iterator[list[tuple[str, str]]]:
    """What Django's signals said: which one, and the status then."""
    found: list[tuple[str, str]] = []

    def note(name: str):
        return lambda sender, task_result, **_: found.append((name, str(task_result.status)))

    signals = {name: getattr(compat, f"task_{name}") for name in ("enqueued", "started", "finished")}
    receivers = {name: note(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(receivers[name], weak=False)
    yield found
    for name, signal in signals.items():
        signal.disconnect(receivers[name])


def test_a_task_runs_and_its_result_is_found_by_its_id(shop, heard):
    result = shop.add.enqueue(2, y=3)
    assert (result.status, result.args, result.kwargs, result.attempts) == ("READY", [2], {"y": 3}, 0)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    drain()
    result.refresh()
    assert (result.status, result.return_value, result.attempts, result.errors) == ("SUCCESSFUL", 5, 1, [])
    assert result.is_finished and result.enqueued_at <= result.started_at <= result.finished_at
    found = shop.add.get_result(result.id)
    assert (found.id, found.return_value, found.task.func) == (result.id, 5, shop.add.func)
    assert heard == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


def test_the_tasks_of_a_backend_can_be_transactional(shop):
    result, failed = shop.enqueue_and_end.enqueue(False), shop.enqueue_and_end.enqueue(True)
    drain("default")
    result.refresh()
    failed.refresh()
    assert (result.status, result.return_value, failed.status) == ("SUCCESSFUL", "enqueued", "FAILED")
    assert value("SELECT count(*) FROM stampeded_jobs WHERE queue = 'mail'") == 1


def test_what_options_of_a_backend_say_of_running_a_job_holds_for_its_tasks(shop):
    result = shop.refuse.enqueue()
    task = registry.find("tests.backend.shop.refuse")
    assert (task.time_limit, task.backoff_base) == (600, 60)
    drain("default")
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1), "tried again after what is none of retry_on"


def test_arguments_are_bound_to_names_and_come_back_as_they_were_given(shop):
    result = shop.add.enqueue(1, 2, 3, 4, z=5)
    assert value("SELECT args::text::jsonb FROM stampeded_jobs") in (
        {"x": 1, "y": 2, "more": [3, 4], "z": 5},
        '{"x": 1, "y": 2, "z": 5, "more": [3, 4]}',
    )
    drain()
    found = shop.add.get_result(result.id)
    assert (found.args, found.kwargs, found.return_value) == ([1, 2, 3, 4], {"z": 5}, 15)


def test_a_job_that_another_language_enqueued_by_names_runs_too(shop):
    rows("INSERT INTO stampeded_jobs (queue, task, args) VALUES ('default', 'tests.backend.shop.add', '{\"x\": 4}')")
    drain()
    assert value("SELECT value::text FROM stampeded_results") == "5"


@pytest.mark.parametrize("call", [((), {}), (("a", "b"), {"x": 1}), ((), {"y": 2})])
def test_wrong_arguments_are_refused_when_enqueued(shop, call):
    with pytest.raises(InvalidArguments, match="was given wrong arguments"):
        shop.add.enqueue(*call[0], **call[1])
    assert states() == {}


def test_priority_grows_upwards_there_and_downwards_here(shop):
    shop.important.enqueue()
    result = shop.important.using(priority=-100).enqueue()
    assert rows("SELECT queue, priority FROM stampeded_jobs ORDER BY id") == [("mail", -5), ("mail", 100)]
    drain()
    assert shop.important.get_result(result.id).task.priority == -100
    order = rows("SELECT priority FROM stampeded_jobs ORDER BY finished_at")
    assert order == [(-5,), (100,)] or len(set(rows("SELECT claimed_at FROM stampeded_jobs"))) == 1


def test_a_deferred_task_waits(shop):
    when = timezone.now() + timedelta(hours=1)
    result = shop.add.using(run_after=when).enqueue(1)
    drain()
    assert shop.add.get_result(result.id).status == "READY"
    assert value("SELECT scheduled_at FROM stampeded_jobs") == when


def test_async_tasks_and_async_callers_work(shop):
    result = async_to_sync(shop.async_add.aenqueue)(1, 2)
    drain()
    async_to_sync(result.arefresh)()
    assert result.return_value == async_to_sync(shop.async_add.aget_result)(result.id).return_value == 3


def test_the_context_tells_of_the_task_that_runs(shop):
    result = shop.told.enqueue("hello")
    drain()
    result.refresh()
    assert result.return_value == [1, result.id, "RUNNING", ["hello"], "hello"]


def test_a_task_that_raises_is_retried_and_fails_with_its_errors(shop, heard):
    result = shop.fail.enqueue("boom")
    drain()
    while states() == {"retryable": 1}:
        drain()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("FAILED", 2, 2)
    assert result.errors[-1].exception_class is ValueError
    assert "boom" in result.errors[-1].traceback and "shop.py" in result.errors[-1].traceback
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    assert [name for name, _ in heard] == ["enqueued", "started", "started", "finished"]


@pytest.mark.parametrize("name", ["give_up", "give_back_a_set"])
def test_no_use_in_trying_again_means_failed_at_once(shop, name):
    result = getattr(shop, name).enqueue()
    drain()
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert result.errors[0].exception_class.__name__ == "Discard"


def test_enqueueing_is_part_of_the_transaction(shop):
    with pytest.raises(RuntimeError), transaction.atomic():
        result = shop.add.enqueue(1)
        raise RuntimeError
    with pytest.raises(compat.TaskResultDoesNotExist):
        shop.add.get_result(result.id)


@pytest.mark.parametrize("id", ["no-uuid", "", "01a228be-90b6-7a3c-bf96-ca54b6d3d955"])
def test_an_unknown_id_is_no_result(shop, id):
    with pytest.raises(compat.TaskResultDoesNotExist):
        compat.task_backends["stampeded"].get_result(id)


def test_a_job_of_another_kind_is_no_result(shop):
    from tests.testapp import tasks

    with pytest.raises(compat.TaskResultDoesNotExist):
        compat.task_backends["stampeded"].get_result(str(tasks.noop.enqueue().id))


def test_a_queue_that_the_backend_does_not_name_is_refused(shop):
    with pytest.raises(compat.InvalidTask, match="Queue 'elsewhere' is not valid"):
        shop.add.using(backend="default", queue_name="elsewhere")


@pytest.mark.parametrize(
    ("options", "why"), [({"max_attempts": 0}, "max_attempts must be"), ({"priority": 1}, "priority belongs")]
)
def test_wrong_options_of_the_backend_are_one_clear_error(shop, options, why):
    odd = {"odd": {"BACKEND": BACKEND, "OPTIONS": options}}
    with override_settings(TASKS=odd), pytest.raises(compat.InvalidTaskBackend, match=why):
        _ = compat.task_backends["odd"]
