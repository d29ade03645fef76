"""Programs in Node and psql that know nothing but the SQL contract share queues with each other and with Python."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from django_stampeded import enqueue, task_by_name
from django_stampeded.models import Job, Worker
from example_project.imports.models import CsvImport
from example_project.imports.tasks import import_file

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 60


def sql(statement: str, *parameters: object) -> Any:
    """The first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()[0]


def until(condition) -> None:
    """Waits for something that other processes bring about."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def waiting_import(tmp_path: Path) -> CsvImport:
    """An import of two rows for which nobody has enqueued a job yet."""
    path = tmp_path / "rows.csv"
    path.write_text("name\na\nb\n")
    return CsvImport.objects.create(source=str(path), folder=str(tmp_path))


@pytest.fixture
def live_node_worker(node_command) -> Iterator[Any]:
    """A worker in Node that waits for work until it is told to stop."""
    worker = node_command("worker.mjs", "node")
    until(Worker.objects.exists)
    yield worker
    worker.kill()
    worker.communicate()


def test_node_runs_what_python_enqueued(node_worker):
    job = task_by_name("text.upper").using(queue_name="node").enqueue(text="grüße")
    assert node_worker("node") == [{"job": str(job.id), "result": "GRÜSSE", "owned": True}]
    assert Job.objects.get(id=job.id).state == "completed"


def test_node_runs_a_job_enqueued_by_name_alone(node_worker):
    job = enqueue("text.upper", text="hello")
    assert node_worker("default") == [{"job": str(job.id), "result": "HELLO", "owned": True}]


def test_a_failure_in_node_is_recorded_and_retried_later_by_the_database(node_worker):
    job = task_by_name("text.refuse").using(queue_name="node").enqueue(reason="not today")
    said = node_worker("node")  # the back-off is random from 0 on, so a retry may come before the worker leaves
    assert said == [{"job": str(job.id), "error": "not today"}] * max(1, len(said))
    failed = Job.objects.get(id=job.id)
    assert (failed.state, failed.failure_kind, failed.attempt) == ("retryable", "raised", len(said))
    assert failed.last_error.startswith("Error: not today")


def test_a_failure_in_node_on_the_last_attempt_discards_the_job(node_worker):
    job = task_by_name("text.refuse").using(queue_name="node", max_attempts=1).enqueue(reason="never")
    node_worker("node")
    assert Job.objects.get(id=job.id).state == "discarded"


def test_node_leaves_a_paused_queue_alone_until_it_is_resumed(node_worker):
    job = task_by_name("text.upper").using(queue_name="node").enqueue(text="a")
    sql("SELECT stampeded_pause('node', 'maintenance')::text")
    assert node_worker("node") == []
    assert Job.objects.get(id=job.id).state == "available"
    sql("SELECT stampeded_resume('node')::text")
    assert [said["job"] for said in node_worker("node")] == [str(job.id)]


def test_a_waiting_worker_in_node_gets_the_job_and_leaves_when_told_to(live_node_worker):
    job = task_by_name("text.upper").using(queue_name="node").enqueue(text="a")
    until(lambda: Job.objects.get(id=job.id).state == "completed")
    live_node_worker.send_signal(signal.SIGTERM)
    assert live_node_worker.wait(SECONDS) == 0
    assert not Worker.objects.exists()


def test_python_runs_what_node_enqueued(node_enqueue, python_worker, waiting_import):
    job = node_enqueue("node", import_file.name, import_id=waiting_import.pk)
    python_worker("node")
    assert Job.objects.get(id=job).state == "completed"
    assert list(waiting_import.records.values_list("label", flat=True)) == ["a", "b"]


def test_python_runs_what_psql_enqueued(run_psql, python_worker, waiting_import):
    args = json.dumps({"import_id": waiting_import.pk})
    job = run_psql(script="enqueue.sql", queue="sql", task=import_file.name, args=args).strip()
    python_worker("sql")
    assert Job.objects.get(id=job).state == "completed"
    assert waiting_import.records.count() == 2


def test_python_discards_what_node_enqueued_with_arguments_that_do_not_fit(node_enqueue, python_worker):
    job = node_enqueue("node", import_file.name, importing=7)
    python_worker("node")
    refused = Job.objects.get(id=job)
    assert (refused.state, refused.failure_kind) == ("discarded", "unrecoverable")
    assert "importing" in refused.last_error or "import_id" in refused.last_error


def test_psql_runs_what_node_enqueued(node_enqueue, run_psql):
    job = node_enqueue("sql", "text.upper", text="hello")
    assert run_psql(script="worker.sql", queue="sql").strip() == f"{job}|HELLO|t"
    assert Job.objects.get(id=job).state == "completed"


def test_node_runs_what_psql_enqueued(node_worker, run_psql):
    job = UUID(run_psql(script="enqueue.sql", queue="node", task="text.upper", args='{"text": "hello"}').strip())
    assert node_worker("node") == [{"job": str(job), "result": "HELLO", "owned": True}]


def test_psql_runs_what_python_enqueued(run_psql):
    jobs = [task_by_name("text.upper").using(queue_name="sql").enqueue(text=text) for text in ("a", "b")]
    said = run_psql(script="worker.sql", queue="sql").split()
    assert said == [f"{jobs[0].id}|A|t", f"{jobs[1].id}|B|t"]
    assert set(Job.objects.values_list("state", flat=True)) == {"completed"}
    assert not Worker.objects.exists()


def test_psql_hands_back_a_task_that_it_does_not_know_as_a_failure(run_psql):
    job = task_by_name("text.lower").using(queue_name="sql").enqueue(text="A")
    assert run_psql(script="worker.sql", queue="sql").strip() == f"{job.id}|retryable"


@pytest.mark.parametrize("call", ["stampeded_complete", "stampeded_release", "stampeded_touch"])
def test_integer_and_text_literals_work_as_they_stand(run_psql, call):
    job = enqueue("text.upper", text="a")
    worker = sql("INSERT INTO stampeded_workers (hostname, pid) VALUES ('psql', 1) RETURNING id")
    run_psql("-c", f"SELECT * FROM stampeded_claim('default', '{worker}', 1)")
    said = run_psql("-c", f"SELECT * FROM {call}('default', '{job.id}', '{worker}', 1)")
    assert (
        said.strip()
        == {
            "stampeded_complete": "executing|completed|t",
            "stampeded_release": "executing|available|t",
            "stampeded_touch": "t",
        }[call]
    )


def test_a_failure_takes_its_literals_as_they_stand(run_psql):
    job = enqueue("text.upper", text="a")
    worker = sql("INSERT INTO stampeded_workers (hostname, pid) VALUES ('psql', 1) RETURNING id")
    run_psql("-c", f"SELECT * FROM stampeded_claim('default', '{worker}')")
    said = run_psql("-c", f"SELECT * FROM stampeded_fail('default', '{job.id}', '{worker}', 1, 'raised', 'no', 0)")
    assert said.strip() == "executing|retryable|f"


def test_workers_in_node_keep_the_limits_of_a_queue(node_command):
    sql(
        "INSERT INTO stampeded_queue_policies (queue, max_running, rate_limit, rate_period_secs) "
        "VALUES ('node', 1, 8, 1) RETURNING true"
    )
    task_by_name("text.upper").using(queue_name="node").enqueue_many([{"text": "a"}] * 20)
    workers = [node_command("worker.mjs", "node") for _ in range(2)]
    try:
        until(lambda: Job.objects.filter(state="completed").count() == 20)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    in_a_second = "count(*) OVER (ORDER BY claimed_at RANGE BETWEEN CURRENT ROW AND '1 second' FOLLOWING)"
    assert sql(f"SELECT max(n) FROM (SELECT {in_a_second} AS n FROM stampeded_jobs) w") <= 8
    follows = "lead(claimed_at) OVER (ORDER BY claimed_at) >= finished_at"
    assert sql(f"SELECT bool_and(after) FROM (SELECT {follows} AS after FROM stampeded_jobs) w"), "two ran at once"
