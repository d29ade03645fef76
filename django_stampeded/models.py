"""Pictures of the tables: for queries, the admin and Django's own bookkeeping.

Owns nothing of what happens to a job; that is decided by the SQL functions (functions.py calls them). The tables are made by
the SQL files, and `id` stands for the jobs' real key (queue, id), since the admin and ForeignKey take no composite one.
Every table has a model here, or the flush of a TransactionTestCase would fail on it.
"""

from __future__ import annotations

from typing import Any

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import connections, models, router
from django.db.models import Func, Value
from django.db.models.expressions import DatabaseDefault
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_stampeded import zones
from django_stampeded.batch_models import BatchDelta, Dependency, Progress, Result
from django_stampeded.bulk_models import BulkOperation
from django_stampeded.count_models import CountDelta, QueueCount, Sample, Tally
from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.queue_models import ALL_QUEUES, Breaker, QueueLimit, QueuePolicy, Start, Turn
from django_stampeded.states import FailureKind, State
from django_stampeded.timing import Timing, timing
from django_stampeded.triggers import AppendOnly, KeepUpdatedAt

__all__ = [
    "ALL_QUEUES", "AuditEntry", "Batch", "BatchDelta", "Breaker", "BulkOperation", "CountDelta", "CronOccurrence", "Dependency",
    "Job", "Progress", "QueueCount", "QueueLimit", "QueuePolicy", "Result", "Sample", "Schedule", "Start", "Tally", "Turn",
    "Worker",
]  # fmt: skip


class UUID7(Func):
    """uuidv7() of PostgreSQL 18; Django has a name for it from 6.1 on only."""

    function = "uuidv7"
    arity = 0
    output_field = models.UUIDField()


class DedupKey(Func):
    """The expression of the generated column, as tables/jobs_v01.sql has it."""

    template = "stampeded_jobs_dedup_key"  # never run: the SQL file makes the column
    output_field = models.BinaryField()


class Job(models.Model):
    """One job. Change it through `django_stampeded.actions` or the SQL functions: a plain save() would undo a worker's work."""

    id = models.UUIDField(primary_key=True, db_default=UUID7(), editable=False)
    queue = models.TextField(_("queue"))
    tenant_id = models.TextField(_("tenant"), null=True)
    task = models.TextField(_("task"))
    args = models.JSONField(_("arguments"), db_default=Value({}, models.JSONField()))
    meta = models.JSONField(_("meta"), db_default=Value({}, models.JSONField()))
    state = models.TextField(_("state"), choices=[(s.value, s.value) for s in State], db_default=State.AVAILABLE.value)
    priority = models.SmallIntegerField(_("priority"), db_default=0)
    destination = models.TextField(_("destination"), null=True)
    scheduled_at = models.DateTimeField(_("scheduled at"), db_default=Now())
    expire_seconds = models.IntegerField(_("expires after (s)"), db_default=3600)
    heartbeat_at = models.DateTimeField(_("last heartbeat"), null=True)
    attempt = models.SmallIntegerField(_("attempt"), db_default=0)
    max_attempts = models.SmallIntegerField(_("max. attempts"), db_default=25)
    attempted_by = ArrayField(
        models.TextField(),
        verbose_name=_("attempted by"),
        db_default=Value([], ArrayField(models.TextField())),
    )
    interruptions = models.SmallIntegerField(_("interruptions"), db_default=0)
    max_interruptions = models.SmallIntegerField(_("max. interruptions"), db_default=1)
    deferrals = models.SmallIntegerField(_("deferrals"), db_default=0)
    max_deferrals = models.SmallIntegerField(_("max. deferrals"), db_default=100)
    checkpoint = models.JSONField(_("checkpoint"), null=True)
    checkpoint_at = models.DateTimeField(_("checkpoint at"), null=True)
    checkpoint_seq = models.IntegerField(_("checkpoint number"), db_default=0)
    backoff_base_ms = models.SmallIntegerField(_("back-off base (ms)"), db_default=1000)
    backoff_max_ms = models.IntegerField(_("longest back-off (ms)"), db_default=3_600_000)
    claimed_by = models.UUIDField(_("claimed by"), null=True)
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    dedup_scope = models.TextField(_("dedup scope"), null=True)
    dedup_period = models.TextField(_("dedup period"), null=True)
    dedup_key = models.GeneratedField(expression=DedupKey(), output_field=models.BinaryField(), db_persist=True)
    failure_kind = models.TextField(_("failure"), null=True, choices=[(k.value, k.value) for k in FailureKind])
    last_error = models.TextField(_("last error"), null=True)
    errors = models.JSONField(_("errors"), db_default=Value([], models.JSONField()))
    error_fingerprint = models.BinaryField(_("error fingerprint"), null=True)
    dead_letter_queue = models.TextField(_("dead-letter queue"), null=True)
    source_id = models.UUIDField(_("source job"), null=True)
    source_queue = models.TextField(_("source queue"), null=True)
    source_attempts = models.SmallIntegerField(_("source attempts"), null=True)
    inserted_at = models.DateTimeField(_("enqueued at"), db_default=Now())
    finished_at = models.DateTimeField(_("finished at"), null=True)
    interrupted_checkpoint = models.BinaryField(null=True, editable=False)
    batch_id = models.UUIDField(_("batch"), null=True)
    limit_key = models.TextField(_("limit key"), null=True)

    class Meta:
        db_table = "stampeded_jobs"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        permissions = [
            ("retry_job", _("Can retry jobs")),
            ("discard_job", _("Can discard jobs")),
            ("cancel_job", _("Can cancel jobs")),
            ("run_job", _("Can run jobs now")),
            ("move_job", _("Can move jobs to another queue")),
            ("prioritise_job", _("Can change the priority of jobs")),
            ("edit_job", _("Can change the arguments of jobs")),
            ("enqueue_job", _("Can enqueue jobs")),
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.id}"


class Batch(models.Model):
    """Jobs that belong together, and what is enqueued when they are through."""

    id = models.UUIDField(primary_key=True, db_default=UUID7(), editable=False)
    name = models.TextField(_("name"))
    parent_id = models.UUIDField(_("parent batch"), null=True)
    on_complete = models.JSONField(_("on completion"), null=True)
    on_success = models.JSONField(_("on success"), null=True)
    on_failure = models.JSONField(_("on the first failure"), null=True)
    meta = models.JSONField(_("meta"), db_default=Value({}, models.JSONField()))
    created_at = models.DateTimeField(_("created at"), db_default=Now())
    sealed_at = models.DateTimeField(_("sealed at"), null=True)
    failed_at = models.DateTimeField(_("first failure at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    counts = models.JSONField(_("counts"), null=True)
    succeeded = models.BooleanField(_("all completed"), null=True)
    callback_error = models.TextField(_("error of a callback"), null=True)

    class Meta:
        db_table = "stampeded_batches"
        verbose_name = _("batch")
        verbose_name_plural = _("batches")

    def __str__(self) -> str:
        return self.name


class Worker(models.Model):
    """One worker process, alive or dead for less than a day."""

    id = models.UUIDField(primary_key=True, db_default=UUID7(), editable=False)
    hostname = models.TextField(_("node"))
    pid = models.IntegerField(_("process"))
    queues = ArrayField(models.TextField(), verbose_name=_("queues"), db_default=Value([], ArrayField(models.TextField())))
    metadata = models.JSONField(_("metadata"), db_default=Value({}, models.JSONField()))
    started_at = models.DateTimeField(_("started at"), db_default=Now())
    last_heartbeat = models.DateTimeField(_("last heartbeat"), db_default=Now())
    waiting = models.BooleanField(_("waiting"), db_default=True)
    stop_requested_at = models.DateTimeField(_("asked to stop at"), null=True, editable=False)

    class Meta:
        db_table = "stampeded_workers"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        permissions = [("stop_worker", _("Can ask workers to stop"))]

    def __str__(self) -> str:
        return f"{self.hostname}:{self.pid}"


class Schedule(models.Model):
    """What runs by the clock."""

    class DstPolicy(models.TextChoices):
        INSTANT = "instant", _("instant")
        WALL_CLOCK = "wall_clock", _("wall clock")

    class MissedPolicy(models.TextChoices):
        ONCE = "once", _("run once, late")
        SKIP = "skip", _("skip")

    class OverlapPolicy(models.TextChoices):
        ALLOW = "allow", _("allow")
        SKIP = "skip", _("skip while the last run is going")

    key = models.TextField(_("key"), primary_key=True)
    queue = models.TextField(_("queue"))
    task = models.TextField(_("task"))
    args = models.JSONField(_("arguments"), blank=True, db_default=Value({}, models.JSONField()))
    meta = models.JSONField(_("meta"), blank=True, db_default=Value({}, models.JSONField()))
    tenant_id = models.TextField(_("tenant"), null=True, blank=True)
    priority = models.SmallIntegerField(_("priority"), db_default=0)
    interval_secs = models.BigIntegerField(_("interval (s)"), null=True, blank=True)
    cron_expr = models.TextField(_("cron expression"), null=True, blank=True)
    next_run_at = models.DateTimeField(_("next run"), db_default=Now())
    last_run_at = models.DateTimeField(_("last run"), null=True, blank=True)
    dst_policy = models.TextField(
        _("DST policy"),
        choices=DstPolicy.choices,
        blank=True,
        db_default=DstPolicy.INSTANT.value,
        help_text=_("Left out, the expression decides."),
    )
    timezone = models.TextField(_("time zone"), db_default="UTC")
    missed_policy = models.TextField(_("missed runs"), choices=MissedPolicy.choices, db_default=MissedPolicy.ONCE.value)
    paused = models.BooleanField(_("paused"), db_default=False)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=Now(), editable=False)
    set_aside_reason = models.TextField(_("set aside because"), null=True, editable=False)
    options = models.JSONField(_("options of its jobs"), blank=True, db_default=Value({}, models.JSONField()))
    overlap_policy = models.TextField(
        _("overlapping runs"), choices=OverlapPolicy.choices, db_default=OverlapPolicy.ALLOW.value
    )
    jitter_secs = models.PositiveIntegerField(_("jitter (s)"), db_default=0)
    last_job_id = models.UUIDField(_("last job"), null=True, editable=False)
    declared = models.JSONField(_("declared as"), null=True, editable=False)
    declared_at = models.DateTimeField(_("declared at"), null=True, editable=False)
    replan = models.BooleanField(_("to be planned"), db_default=False, editable=False)

    class Meta:
        db_table = "stampeded_schedules"
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions = [("run_schedule", _("Can run schedules now"))]
        triggers = [
            KeepUpdatedAt(
                name="schedule_updated_at",
                condition=pgtrigger.AnyChange(exclude=["updated_at", "declared_at"]),
            )
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def timing(self) -> Timing:
        """When it runs: `schedule.timing.upcoming(10, now, schedule.next_run_at)`. Uses raise InvalidSchedule for a bad one."""
        return Timing(self.cron_expr, self.interval_secs, self.timezone, self.dst_policy)

    def clean(self) -> None:
        """Refuses a timing that is none, with the reason at its field, and settles the DST policy that was left out."""
        errors = {
            name: _("At most 255 characters.")
            for name in ("key", "queue", "task", "tenant_id")
            if len(getattr(self, name) or "") > 255
        }
        errors |= {
            name: _("A JSON object, such as {}.")
            for name in ("args", "meta", "options")
            if not isinstance(getattr(self, name), dict | DatabaseDefault)
        }
        if errors:
            raise ValidationError(errors)
        self.cron_expr, self.tenant_id = self.cron_expr or None, self.tenant_id or None
        zone = "UTC" if isinstance(self.timezone, DatabaseDefault) else self.timezone
        policy = None if isinstance(self.dst_policy, DatabaseDefault) else self.dst_policy
        try:
            settled = timing(self.cron_expr, self.interval_secs, zone, policy)
        except InvalidSchedule as exc:
            raise ValidationError({"interval_secs" if self.cron_expr is None else "cron_expr": str(exc)}) from exc
        self.cron_expr, self.dst_policy = settled.cron_expr, settled.dst_policy
        self._check_zone(settled)

    def _check_zone(self, settled: Timing) -> None:
        alias = self._state.db or router.db_for_write(type(self), instance=self)
        try:
            _ = settled.zone
        except InvalidSchedule as exc:
            raise ValidationError({"timezone": str(exc)}) from exc
        with connections[alias].cursor() as cursor:
            problems = zones.unknown_to_server(cursor, [settled.timezone])
        if problems:
            raise ValidationError({"timezone": problems[settled.timezone]})


class CronOccurrence(models.Model):
    """One occurrence of a schedule that has fired."""

    id = models.BigAutoField(primary_key=True)
    cron_key = models.ForeignKey(
        Schedule, models.CASCADE, db_column="cron_key", verbose_name=_("schedule"), related_name="occurrences"
    )
    occurrence_token = models.TextField(_("occurrence"))
    job_id = models.UUIDField(_("job"), null=True)
    enqueued_at = models.DateTimeField(_("enqueued at"), db_default=Now())
    planned_at = models.DateTimeField(_("planned for"), null=True)
    skipped = models.TextField(_("skipped because"), null=True)

    class Meta:
        db_table = "stampeded_cron_occurrences"
        verbose_name = _("occurrence")
        verbose_name_plural = _("occurrences")

    def __str__(self) -> str:
        return f"{self.cron_key_id} {self.occurrence_token}"


class AuditEntry(models.Model):
    """What an operator did. Rows are only ever added."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("at"), db_default=Now())
    actor = models.TextField(_("by"))
    action = models.TextField(_("action"))
    queue = models.TextField(_("queue"), null=True)
    job_id = models.UUIDField(_("job"), null=True)
    detail = models.JSONField(_("detail"), db_default=Value({}, models.JSONField()))

    class Meta:
        db_table = "stampeded_audit"
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        triggers = [AppendOnly(name="audit_append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        kwargs["force_insert"] = True
        super().save(*args, **kwargs)
