"""Who did what: an audit row in the same transaction as the deed, or neither."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connections, transaction

from django_stampeded.conf import settings
from django_stampeded.models import AuditEntry

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, for the audit.

    Args:
        name: a user's name, or whoever runs the command.
        via: the surface: ``admin``, ``command``, ``api``, ``mcp`` or ``python``.
    """

    name: str
    via: str = "python"


@contextmanager
def recorded(action: str, actor: Actor, using: str | None, queue: str | None = None, **detail: Any) -> Iterator[Any]:
    """A transaction with a cursor that ends with the audit row."""
    alias = using or settings.DATABASE
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        yield cursor
        record(alias, action, actor, queue, None, **detail)


def record(alias: str, action: str, actor: Actor, queue: str | None, job_id: UUID | None, **detail: Any) -> None:
    """Add the audit row; to be called inside the deed's transaction."""
    _entry(actor, action, queue, job_id, detail).save(using=alias)


def record_many(alias: str, action: str, actor: Actor, jobs: Iterable[tuple[str, UUID, Mapping[str, Any]]]) -> None:
    """Add an audit row for each (queue, id, detail); to be called inside the deed's transaction."""
    AuditEntry.objects.using(alias).bulk_create(_entry(actor, action, *job) for job in jobs)


def _entry(actor: Actor, action: str, queue: str | None, job_id: UUID | None, detail: Mapping[str, Any]) -> AuditEntry:
    said = {name: value for name, value in detail.items() if value != ""}
    name = clean(actor.name) or "unknown"
    return AuditEntry(actor=name, action=action, queue=queue, job_id=job_id, detail={"via": actor.via, **said})


def clean(text: str) -> str:
    """The text as the database can hold it, cut to LONGEST_REASON characters."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:LONGEST_REASON].strip()
