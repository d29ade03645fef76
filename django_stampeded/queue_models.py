"""Pictures of the tables of policies, limits, breakers and what claims keep about them, which models.py shows with the others.

Operators edit policies and limits, through `django_stampeded.actions` or by SQL; the rest is written by SQL functions alone.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_stampeded.states import BreakerState
from django_stampeded.triggers import KeepUpdatedAt

ALL_QUEUES = "*"
"""The policy of this name is that of all queues; it can do nothing but pause them."""


class QueuePolicy(models.Model):
    """What operators decide about a queue, and what the planner makes of it."""

    class Verdict(models.TextChoices):
        STEADY = "steady", _("steady")
        RUSH = "rush", _("rush")
        HOLD = "hold", _("hold")

    queue = models.TextField(_("queue"), primary_key=True)
    max_running = models.PositiveIntegerField(_("max. running"), null=True, blank=True)
    max_wait_secs = models.PositiveIntegerField(_("max. wait (s)"), null=True, blank=True)
    verdict = models.TextField(_("verdict"), choices=Verdict.choices, db_default=Verdict.STEADY.value, editable=False)
    reason = models.TextField(_("reason"), null=True, editable=False)
    decided_at = models.DateTimeField(_("decided at"), null=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=Now(), editable=False)
    updated_at = models.DateTimeField(_("updated at"), db_default=Now(), editable=False)
    paused_at = models.DateTimeField(_("paused at"), null=True, editable=False)
    paused_reason = models.TextField(_("paused because"), null=True, editable=False)
    paused_until = models.DateTimeField(_("paused until"), null=True, editable=False)
    rate_limit = models.PositiveIntegerField(_("starts"), null=True, blank=True)
    rate_period_secs = models.PositiveIntegerField(_("in so many seconds"), null=True, blank=True)
    fair_tenants = models.BooleanField(_("fair shares of tenants"), db_default=False)
    keep_completed_secs = models.PositiveIntegerField(_("keep completed (s)"), null=True, blank=True)
    keep_discarded_secs = models.PositiveIntegerField(_("keep discarded (s)"), null=True, blank=True)
    keep_cancelled_secs = models.PositiveIntegerField(_("keep cancelled (s)"), null=True, blank=True)

    class Meta:
        db_table = "stampeded_queue_policies"
        verbose_name = _("queue policy")
        verbose_name_plural = _("queue policies")
        permissions = [("pause_queue", _("Can pause and resume queues"))]
        triggers = [KeepUpdatedAt(name="policy_updated_at")]

    def __str__(self) -> str:
        return self.queue


class QueueLimit(models.Model):
    """A limit of each tenant, destination or limit_key within a queue, or of the one named."""

    class Scope(models.TextChoices):
        TENANT = "tenant", _("tenant")
        DESTINATION = "destination", _("destination")
        KEY = "key", _("limit key")

    id = models.BigAutoField(primary_key=True)
    queue = models.ForeignKey(
        QueuePolicy, models.CASCADE, db_column="queue", verbose_name=_("queue"), related_name="limits", db_index=False
    )
    scope = models.TextField(_("of"), choices=Scope.choices)
    value = models.TextField(_("named"), null=True, blank=True)
    max_running = models.PositiveIntegerField(_("max. running"), null=True, blank=True)
    rate_limit = models.PositiveIntegerField(_("starts"), null=True, blank=True)
    rate_period_secs = models.PositiveIntegerField(_("in so many seconds"), null=True, blank=True)

    class Meta:
        db_table = "stampeded_limits"
        verbose_name = _("limit")
        verbose_name_plural = _("limits")

    def __str__(self) -> str:
        return f"{self.queue_id}: {self.scope} {self.value or ''}".rstrip()


class Start(models.Model):
    """Starts that rate limits count, one row for each claim and limit."""

    pk = models.CompositePrimaryKey("queue", "scope", "value", "started_at")
    queue = models.TextField()
    scope = models.TextField()
    value = models.TextField()
    started_at = models.DateTimeField()
    n = models.BigIntegerField()
    total = models.BigIntegerField()
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "stampeded_starts"


class Turn(models.Model):
    """Where claims go on in a queue that serves several keys in turn."""

    queue = models.TextField(primary_key=True)
    tenant = models.TextField(null=True)
    grp = models.BigIntegerField(null=True)
    walked = models.SmallIntegerField(null=True)
    walked_at = models.DateTimeField(null=True)
    walked_id = models.UUIDField(null=True)

    class Meta:
        db_table = "stampeded_turns"


class Breaker(models.Model):
    """The circuit breaker of a destination, or of a task."""

    class Kind(models.TextChoices):
        DESTINATION = "destination", _("destination")
        TASK = "task", _("task")

    class State(models.TextChoices):
        CLOSED = BreakerState.CLOSED.value, _("closed")
        OPEN = BreakerState.OPEN.value, _("open")
        HALF_OPEN = BreakerState.HALF_OPEN.value, _("half open")

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField(_("of"), choices=Kind.choices)
    key = models.TextField(_("named"))
    state = models.TextField(_("state"), choices=State.choices, db_default=State.CLOSED.value)
    window_at = models.DateTimeField(_("counted since"), null=True)
    failures = models.BigIntegerField(_("failures"), db_default=0)
    successes = models.BigIntegerField(_("successes"), db_default=0)
    openings = models.IntegerField(_("openings"), db_default=0)
    opened_at = models.DateTimeField(_("opened at"), null=True)
    retry_at = models.DateTimeField(_("next probes at"), null=True)
    reason = models.TextField(_("reason"), null=True)
    queues = ArrayField(models.TextField(), verbose_name=_("queues"), null=True)
    wait_secs = models.FloatField(_("first wait (s)"), db_default=30.0)
    longest_wait_secs = models.FloatField(_("longest wait (s)"), db_default=600.0)
    probes = models.IntegerField(_("probes"), db_default=1)
    updated_at = models.DateTimeField(_("updated at"), db_default=Now())

    class Meta:
        db_table = "stampeded_breakers"
        verbose_name = _("circuit breaker")
        verbose_name_plural = _("circuit breakers")
        permissions = [("switch_breaker", _("Can trip and reset circuit breakers"))]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
