"""Which bulk operations nothing does any more, as their job was cancelled, discarded or deleted before they had ended."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django_stampeded.insights.alias import chosen
from django_stampeded.models import BulkOperation, Job
from django_stampeded.states import FINAL


def abandoned(operations: Iterable[BulkOperation], using: str | None = None) -> set[UUID]:
    """The ids of those operations that have not ended and that no job will go on with; one statement whatever their number.

    Args:
        operations: those to look at.
        using: database alias; the setting DATABASE when None.

    Example:
        >>> abandoned([operation])
        set()
    """
    open_ones = [operation for operation in operations if not operation.ended]
    if not open_ones:
        return set()
    queues = {operation.queue for operation in open_ones}
    rows = Job.objects.using(chosen(using)).filter(queue__in=queues, pk__in={operation.job_id for operation in open_ones})
    alive = set(rows.exclude(state__in=FINAL).values_list("pk", flat=True))
    return {operation.pk for operation in open_ones if operation.job_id not in alive}
