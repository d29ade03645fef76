"""Which models are shown on an admin site, and by which class."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model

from django_stampeded.admin.batches import BatchAdmin
from django_stampeded.admin.breakers import BreakerAdmin
from django_stampeded.admin.bulk import BulkOperationAdmin
from django_stampeded.admin.history import AuditEntryAdmin, CronOccurrenceAdmin
from django_stampeded.admin.jobs import JobAdmin
from django_stampeded.admin.limits import QueueLimitAdmin
from django_stampeded.admin.queues import QueuePolicyAdmin
from django_stampeded.admin.schedules import ScheduleAdmin
from django_stampeded.admin.workers import WorkerAdmin
from django_stampeded.models import (
    AuditEntry,
    Batch,
    Breaker,
    BulkOperation,
    CronOccurrence,
    Job,
    QueueLimit,
    QueuePolicy,
    Schedule,
    Worker,
)

PAGES: dict[type[Model], type[ModelAdmin]] = {
    Job: JobAdmin,
    BulkOperation: BulkOperationAdmin,
    QueuePolicy: QueuePolicyAdmin,
    QueueLimit: QueueLimitAdmin,
    Breaker: BreakerAdmin,
    Worker: WorkerAdmin,
    Schedule: ScheduleAdmin,
    CronOccurrence: CronOccurrenceAdmin,
    Batch: BatchAdmin,
    AuditEntry: AuditEntryAdmin,
}


def register(site: AdminSite | None = None) -> None:
    """Put all pages on an admin site; what is there already stays.

    Args:
        site: an AdminSite of your own; Django's default one when None.

    Example:
        >>> register(my_admin_site)
    """
    target = admin.site if site is None else site
    for model, page in PAGES.items():
        if not target.is_registered(model):
            target.register(model, page)
