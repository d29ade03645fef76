"""What the pictures show: a shop in a busy hour, written straight into the tables so that each picture is the same again."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from django_stampeded import actions, insights
from django_stampeded.models import Batch, Breaker, BulkOperation, Job, QueuePolicy, Sample, Schedule, Worker

ANN = actions.Actor("ann", via="admin")
TRACEBACK = """Traceback (most recent call last):
  File "shop/tasks.py", line 42, in charge
    gateway.charge(order.total, token=order.token)
  File "shop/gateway.py", line 17, in charge
    raise PaymentError(f"order {order} was refused: card expired")
shop.gateway.PaymentError: order 4711 was refused: card expired"""
STEPS = {
    "stampeded_steps": {
        "reserve the goods": {"done": True, "result": {"shelf": "B12"}},
        "charge": {"cursor": {"attempted": 2}},
    }
}
QUEUES = {"default": (14, 22.0), "mail": (40, 35.0), "payments": (6, 4.0), "reports": (3, 0.2)}
"""Each queue with its depth and its jobs a second."""


class Scene:
    """Makes everything when it is made. `session` is that of a superuser, the other attributes are keys for addresses."""

    def __init__(self) -> None:
        self.now = timezone.now()
        self.session = sign_in()
        self._samples()
        workers = self._workers()
        self._jobs(workers)
        self.failed_job = self._failures()
        self.batch = self._batches()
        self._policies_and_schedules()
        self._breakers()
        self.operation = self._bulk_operation()

    def _samples(self) -> None:
        slot = int(self.now.timestamp() // 5)
        rows = []
        for place in range(120):
            at = self.now - timedelta(seconds=5 * place)
            waves = {queue: 1 + 0.4 * math.sin(place / (7 + len(queue))) for queue in QUEUES}
            rush = max(0.0, 1 - abs(place - 45) / 15)
            each = [
                self._sample(queue, slot - place, at, depth * waves[queue] * (1 + 6 * rush), rate * waves[queue])
                for queue, (depth, rate) in QUEUES.items()
            ]
            rows += each
            total = self._sample(
                "", slot - place, at, sum(row.available for row in each), sum(row.completed / 5 for row in each)
            )
            total.failures = {"raised": place % 3 // 2 + int(4 * rush), **({"timed_out": 1} if place % 30 == 0 else {})}
            rows.append(total)
        Sample.objects.bulk_create(rows)

    def _sample(self, queue: str, slot: int, at: Any, depth: float, rate: float) -> Sample:
        return Sample(
            queue=queue,
            slot=slot,
            at=at,
            seconds=5,
            available=int(depth),
            retryable=2,
            executing=4,
            oldest_waiting_secs=round(depth / max(rate, 1), 1),
            completed=int(rate * 5),
            discarded=0,
            cancelled=0,
            failures={},
            final_counts=[0, 0, 0],
        )

    def _workers(self) -> list[Worker]:
        about = {"notifications": "listening", "threads": 8, "python": "3.13.1"}
        made = [
            Worker.objects.create(hostname=f"node-{number}", pid=4000 + number, queues=queues, metadata=about)
            for number, queues in enumerate((["*"], ["*"], ["mail"]), 1)
        ]
        Worker.objects.create(hostname="node-4", pid=4004, queues=["payments"], metadata={"notifications": "polling only"})
        return made

    def _jobs(self, workers: list[Worker]) -> None:
        tenants = ("acme", "globex", "initech")
        for number in range(63):
            queue = list(QUEUES)[number % 4]
            Job.objects.create(
                queue=queue,
                task=f"shop.tasks.{('receipt', 'newsletter', 'charge', 'export')[number % 4]}",
                args={"order": 4700 + number},
                tenant_id=tenants[number % 3],
                scheduled_at=self.now - timedelta(seconds=3 + number / 4),
            )
        for number in range(9):
            Job.objects.create(
                queue=list(QUEUES)[number % 3],
                task="shop.tasks.export" if number == 4 else "shop.tasks.receipt",
                args={"order": 4600 + number},
                tenant_id=tenants[number % 3],
                state="executing",
                attempt=1,
                claimed_by=workers[number % 3].pk,
                claimed_at=self.now - timedelta(seconds=2 + 31 * number),
            )
        for number in range(400):
            ended = self.now - timedelta(seconds=number)
            Job.objects.create(queue=list(QUEUES)[number % 4], task="shop.tasks.receipt", state="completed", finished_at=ended)

    def _failures(self) -> Any:
        refused = [self._failed(number, TRACEBACK, b"a" * 32) for number in range(7)]
        for number in range(3):
            self._failed(number, "TimeoutError: smtp.example did not answer", b"b" * 32)
        return refused[0].pk

    def _failed(self, number: int, error: str, fingerprint: bytes) -> Job:
        times = [(self.now - timedelta(minutes=9 - 3 * each)).isoformat() for each in range(3)]
        return Job.objects.create(
            queue="payments",
            task="shop.tasks.charge",
            args={"order": 4711 + number, "card_token": "tok_secret"},
            state="discarded",
            attempt=3,
            max_attempts=3,
            finished_at=self.now - timedelta(minutes=number + 1),
            failure_kind="raised",
            checkpoint=STEPS,
            last_error=error,
            error_fingerprint=fingerprint,
            errors=[{"at": at, "attempt": n, "kind": "raised", "message": error} for n, at in enumerate(times, 1)],
        )

    def _batches(self) -> Any:
        callback = {"queue": "default", "task": "shop.tasks.import_done"}
        Batch.objects.create(
            name="import airports.csv",
            on_complete=callback,
            sealed_at=self.now,
            finished_at=self.now,
            succeeded=True,
            counts={"completed": 3376},
        )
        batch = Batch.objects.create(name="newsletter, May", on_complete=callback, sealed_at=self.now, meta={"by": "ann"})
        for number in range(40):
            state = "completed" if number < 26 else "discarded" if number < 27 else "available"
            ended = self.now if state != "available" else None
            Job.objects.create(queue="mail", task="shop.tasks.newsletter", state=state, batch_id=batch.pk, finished_at=ended)
        return batch.pk

    def _policies_and_schedules(self) -> None:
        QueuePolicy.objects.create(
            queue="payments",
            max_running=4,
            max_wait_secs=5,
            verdict="rush",
            decided_at=self.now,
            reason="its oldest due job has waited 9 s, and may wait 5 s",
        )
        actions.change_policy("mail", {"rate_limit": 50, "rate_period_secs": 1, "fair_tenants": True}, actor=ANN)
        for scope, value, limit in (
            ("tenant", None, {"max_running": 10}),
            ("tenant", "globex", {"max_running": 1}),
            ("destination", "smtp.example.org", {"rate_limit": 600, "rate_period_secs": 60}),
        ):
            actions.change_limit("mail", scope, value, limit, actor=ANN)
        actions.pause("reports", actor=ANN, reason="month's end: the reports wait for the books")
        for key, cron in (("nightly-report", "0 3 * * *"), ("clean-carts", "*/15 * * * *"), ("weekly-digest", "0 8 * * mon")):
            Schedule.objects.create(
                key=key,
                task=f"shop.tasks.{key.replace('-', '_')}",
                queue="reports",
                cron_expr=cron,
                timezone="Europe/Berlin",
                dst_policy="wall_clock",
                next_run_at=self.now + timedelta(hours=5),
            )

    def _breakers(self) -> None:
        opened, again = self.now - timedelta(minutes=4), self.now + timedelta(seconds=40)
        Breaker.objects.create(
            kind="destination",
            key="api.bank.example",
            state="open",
            failures=24,
            successes=6,
            openings=3,
            opened_at=opened,
            retry_at=again,
            reason="24 of 30 jobs failed in 60 s",
            queues=["payments"],
        )
        Breaker.objects.create(kind="task", key="shop.tasks.export", failures=2, successes=51, window_at=self.now)

    def _bulk_operation(self) -> Any:
        operation = actions.start("retry", insights.Selection(queue="payments", state="discarded"), actor=ANN)
        BulkOperation.objects.filter(pk=operation.pk).update(expected=12_000, done=7_500, state="running")
        return operation.pk


def sign_in() -> str:
    """The key of a superuser's session."""
    user = get_user_model().objects.create_superuser("ann")
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return str(session.session_key)
