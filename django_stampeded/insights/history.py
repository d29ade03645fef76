"""What operators did to a job, from the audit. Reading only; the rows are written by `actions`."""

from __future__ import annotations

from uuid import UUID

from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import AuditEntry

SHOWN = 20


def acts_on(job_id: UUID, using: str | None = None) -> list[AuditEntry]:
    """The latest SHOWN audit entries of a job, newest first, with secrets hidden in what they say.

    Args:
        job_id: the job.
        using: database alias; the setting DATABASE when None.

    Example:
        >>> [(entry.actor, entry.action) for entry in acts_on(job_id)]
        [('ann', 'retry')]
    """
    redactor = Redactor(settings.REDACT)
    found = list(AuditEntry.objects.using(chosen(using)).filter(job_id=job_id).order_by("-id")[:SHOWN])
    for entry in found:
        entry.detail = redactor.value(entry.detail)
    return found
