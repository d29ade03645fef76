"""Processes that enqueue one unique job at once: one row, and with replacement the arguments committed last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.sql.client import SqlClient
from tests.sql.fixtures import Params
from tests.sql.test_migrations import url

PROCESSES = 8
EACH = int(os.environ.get("UNIQUE_ENQUEUES", "100"))
"""1,000 in the published case."""

# A number drawn under the lock of the job that was just written tells in which order the transactions committed.
PROGRAM = """
import json, sys
import django
django.setup()
from django.db import connection, transaction
from django_stampeded import task_by_name
number, each, on_conflict = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
task = task_by_name("unique").using(queue_name="q", dedup="s", on_conflict=on_conflict)
order, created, replaced = 0, 0, 0
with connection.cursor() as cursor:
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(each):
        with transaction.atomic():
            job = task.enqueue(by=number, n=n)
            cursor.execute("SELECT nextval('commits')")
            order = cursor.fetchone()[0]
        created += job.created
        replaced += job.replaced
print(json.dumps({"order": order, "created": created, "replaced": replaced, "args": {"by": number, "n": n}}))
"""


def enqueued_at_once(params: Params, on_conflict: str) -> list[dict[str, Any]]:
    """What each of the processes has done, all of them started together."""
    env = {**os.environ, "DATABASE_URL": url(params), "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONWARNINGS": "ignore"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(number), str(EACH), on_conflict],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        return [json.loads(process.communicate(timeout=250)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
def test_processes_that_enqueue_one_unique_job_at_once_leave_one_row(sql: SqlClient, params: Params, on_conflict: str) -> None:
    sql.run("CREATE SEQUENCE commits")
    try:
        done = enqueued_at_once(params, on_conflict)
    finally:
        sql.run("DROP SEQUENCE commits")
    (job,) = sql.jobs()
    assert sum(each["created"] for each in done) == 1
    assert sum(each["replaced"] for each in done) == (PROCESSES * EACH - 1 if on_conflict == "replace" else 0)
    if on_conflict == "replace":
        assert job.args == max(done, key=lambda each: each["order"])["args"]
    assert sql.counts() == {("q", "available"): 1}
