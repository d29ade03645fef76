"""Measures the admin's pages over many jobs: milliseconds of one request, rendering included, and its statements."""

from __future__ import annotations

import time
from statistics import median
from urllib.parse import urlencode

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from bench import server
from bench.rounds import Line, Sizes

TARGET_MS = 200
BATCH = "019aaaaa-0000-7000-8000-00000000ba7c"
WORKER = "019aaaaa-0000-7000-8000-000000000001"
PORTION = 500_000
# Seven in ten are final, three wait, some fail; ids and times grow with n, so that the newest are the last.
FILL = """
INSERT INTO stampeded_jobs (id, queue, task, tenant_id, args, state, priority, attempt, scheduled_at, finished_at, claimed_by,
                            claimed_at, failure_kind, last_error, error_fingerprint, batch_id)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
       (ARRAY['mail', 'mail', 'mail', 'payments', 'reports'])[1 + n %% 5], 'shop.task' || n %% 20, 'tenant' || n %% 50,
       jsonb_build_object('order', n, 'user_id', n %% 100000), s, n %% 3, least(n %% 10, 1), at,
       CASE WHEN s IN ('completed', 'discarded', 'cancelled') THEN at + interval '1 second' END,
       CASE WHEN s = 'executing' THEN %(worker)s::uuid END, CASE WHEN s = 'executing' THEN at END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'raised' END,
       CASE WHEN s IN ('discarded', 'retryable') THEN 'ValueError: order ' || n || ' has no rows' END,
       CASE WHEN s IN ('discarded', 'retryable') THEN sha256(('error' || n %% 40)::bytea) END,
       CASE WHEN n %% 10 = 5 THEN %(batch)s::uuid END
  FROM (SELECT n, now() - (%(most)s - n) * interval '100 milliseconds' AS at,
               CASE WHEN n %% 10 < 6 THEN 'completed' WHEN n %% 10 < 9 THEN 'available' WHEN n %% 50000 = 9 THEN 'executing'
                    WHEN n %% 40 = 19 THEN 'discarded' WHEN n %% 100 = 29 THEN 'retryable' ELSE 'cancelled' END AS s
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) n) made
"""


def opened(sizes: Sizes) -> list[Line]:
    """Each page, opened some times in turn, without the index of arguments and then with it."""
    fill(sizes.pages)
    client = signed_in()
    addresses = {**pages(), "a search by an argument, not indexed": jobs(q="user_id:4242")}
    lines = [line(client, what, address, sizes.rounds) for what, address in addresses.items()]
    from django_stampeded import actions

    actions.index_arguments(actor=actions.Actor("bench"))
    try:
        return [*lines, line(client, "a search by an argument, indexed", jobs(q="user_id:4242"), sizes.rounds)]
    finally:
        actions.drop_arguments_index(actor=actions.Actor("bench"))
        server.empty()


def fill(most: int) -> None:
    """So many jobs, a worker that holds some, and a batch of a tenth of them."""
    server.empty()
    server.execute("INSERT INTO stampeded_workers (id, hostname, pid, queues) VALUES (%s, 'bench', 1, '{*}')", WORKER)
    server.execute("INSERT INTO stampeded_batches (id, name) VALUES (%s, 'a tenth of all')", BATCH)
    for first in range(1, most + 1, PORTION):
        given = {"first": first, "last": min(most, first + PORTION - 1), "most": most, "batch": BATCH, "worker": WORKER}
        with connection.cursor() as cursor:
            cursor.execute(FILL, given)
    server.execute("VACUUM ANALYZE stampeded_jobs")
    with connection.cursor() as cursor:
        cursor.execute("SELECT stampeded_fold_counts()")


def signed_in() -> Client:
    """A superuser's browser."""
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    client = Client(SERVER_NAME="localhost")
    client.force_login(users.filter(username="bench").first() or users.create_superuser("bench"))
    return client


def jobs(**parameters: str) -> str:
    """The list of jobs, narrowed by these."""
    return f"{reverse('admin:stampeded_job_changelist')}?{urlencode(parameters)}"


def pages() -> dict[str, str]:
    """What is measured, by what it is called in the result."""
    from django_stampeded.models import Job

    waiting = Job.objects.filter(state="available").order_by("-id").values_list("pk", flat=True)[0]
    lists = ("queuepolicy", "worker", "batch", "schedule", "breaker", "queuelimit", "auditentry", "bulkoperation")
    return {
        "overview": reverse("admin:app_list", args=["stampeded"]),
        "overview, polled": reverse("admin:stampeded_live"),
        "jobs, the newest": jobs(),
        "jobs, completed": jobs(state="completed"),
        "jobs, available in one queue": jobs(state="available", queue="payments"),
        "jobs of a task": jobs(task="shop.task3"),
        "jobs of a tenant that has none": jobs(tenant="nobody"),
        "jobs by a text that no error has": jobs(q="no such text"),
        "jobs of a batch": jobs(batch=BATCH),
        "a job": reverse("admin:stampeded_job_change", args=[waiting]),
        "errors": reverse("admin:stampeded_job_errors"),
        "everything discarded, counted": reverse("admin:stampeded_job_bulk") + "?act=retry&state=discarded",
        "a batch": reverse("admin:stampeded_batch_change", args=[BATCH]),
        **{f"list of {name}": reverse(f"admin:stampeded_{name}_changelist") for name in lists},
    }


def line(client: Client, what: str, address: str, rounds: int) -> Line:
    """One page's line; it is opened once before, as the first request loads templates."""
    with CaptureQueriesContext(connection) as caught:
        answer = client.get(address)
        statements = len(caught)
    assert answer.status_code == 200, (address, answer.status_code)
    seconds = median(timed(client, address) for _ in range(rounds))
    return Line(what, f"{seconds * 1000:.0f} ms, {statements} statements", target=f"≤ {TARGET_MS} ms on an idle machine")


def timed(client: Client, address: str) -> float:
    """The seconds of one request."""
    began = time.perf_counter()
    client.get(address)
    return time.perf_counter() - began
