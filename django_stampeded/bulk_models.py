"""The picture of the table of bulk operations, which models.py shows with the others.

Written by `actions.bulk_operations` alone.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Value
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class BulkOperation(models.Model):
    """One act on all jobs of a selection, and how far it is."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        FINISHED = "finished", _("finished")
        STOPPED = "stopped", _("stopped")

    id = models.UUIDField(primary_key=True, editable=False)
    action = models.TextField(_("action"))
    actor = models.TextField(_("by"))
    via = models.TextField()
    selection = models.JSONField(_("selection"))
    parameters = models.JSONField(_("parameters"), db_default=Value({}, models.JSONField()))
    expected = models.BigIntegerField(_("expected"))
    exact = models.BooleanField(_("counted exactly"))
    position = models.TextField(db_default="")
    done = models.BigIntegerField(_("done"), db_default=0)
    skipped = models.BigIntegerField(_("skipped"), db_default=0)
    skips = models.JSONField(db_default=Value([], models.JSONField()))
    state = models.TextField(_("state"), choices=State.choices, db_default=State.WAITING.value)
    queue = models.TextField(_("queue"), null=True)
    job_id = models.UUIDField(_("job"), null=True)
    created_at = models.DateTimeField(_("asked for at"), db_default=Now())
    updated_at = models.DateTimeField(_("latest progress at"), db_default=Now())
    finished_at = models.DateTimeField(_("ended at"), null=True)

    class Meta:
        db_table = "stampeded_bulk_operations"
        verbose_name = _("bulk operation")
        verbose_name_plural = _("bulk operations")

    def __str__(self) -> str:
        return f"{self.actor}: {self.action}"

    @property
    def passed(self) -> int:
        """How many jobs are behind it, done or skipped."""
        return self.done + self.skipped

    @property
    def reach(self) -> int:
        """What `passed` is measured by: at least 1, and all of it once it has finished."""
        return max(1, self.passed if self.state == self.State.FINISHED else max(self.expected, self.passed))

    @property
    def ended(self) -> bool:
        """Whether nothing more will be done."""
        return self.state in {self.State.FINISHED, self.State.STOPPED}
