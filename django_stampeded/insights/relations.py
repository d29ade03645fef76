"""The jobs that a job belongs with: those that it waits for, those that wait for it, dead letters, its batch.

Each from an index, at most SHOWN of each kind. Reading only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_stampeded.insights.alias import chosen
from django_stampeded.insights.selection import parse_id
from django_stampeded.models import Batch, Dependency, Job

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Relation:
    """A job that belongs with another one.

    Args:
        id: that job.
        task: its task; empty where it is gone.
        state: its state; empty where it is gone.
    """

    id: UUID
    task: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Relations:
    """What belongs with a job.

    Args:
        parents: the jobs that it was enqueued to wait for, those that have ended too.
        children: the jobs that wait for it still.
        letters: its dead letters, the newest first.
        source: the job whose dead letter it is.
        batch_id: its batch.
        batch_name: that batch's name; empty where it is gone.
    """

    parents: list[Relation] = field(default_factory=list)
    children: list[Relation] = field(default_factory=list)
    letters: list[Relation] = field(default_factory=list)
    source: Relation | None = None
    batch_id: UUID | None = None
    batch_name: str = ""


def relations(job: Job, using: str | None = None) -> Relations:
    """What belongs with a job, in at most four statements.

    Args:
        job: from `find`.
        using: database alias; the setting DATABASE when None.

    Example:
        >>> [letter.state for letter in relations(job).letters]
        ['available']
    """
    alias = chosen(using)
    parents = _parents_of(job, alias)
    waiting = Dependency.objects.using(alias).filter(parent_id=job.pk).order_by("child_id")
    children = list(waiting.values_list("child_id", flat=True)[:SHOWN])
    letters = list(Job.objects.using(alias).filter(source_id=job.pk).order_by("-id").values_list("id", flat=True)[:SHOWN])
    wanted = {*parents, *children, *letters, *([job.source_id] if job.source_id else [])}
    rows = Job.objects.using(alias).filter(pk__in=wanted).values_list("id", "task", "state") if wanted else []
    known = {job_id: Relation(job_id, task, state) for job_id, task, state in rows}

    def told(ids: list[UUID]) -> list[Relation]:
        return [known.get(job_id, Relation(job_id)) for job_id in ids]

    return Relations(
        told(parents), told(children), told(letters),
        source=told([job.source_id])[0] if job.source_id else None,
        batch_id=job.batch_id,
        batch_name=_batch_name(job, alias),
    )  # fmt: skip


def _parents_of(job: Job, alias: str) -> list[UUID]:
    """From its meta, which keeps them, and from what it waits for, which other languages write alone."""
    noted: Any = job.meta.get("depends_on", []) if isinstance(job.meta, dict) else []
    ids = [parse_id(each) for each in noted[:SHOWN] if isinstance(each, str)] if isinstance(noted, list) else []
    waited_for = Dependency.objects.using(alias).filter(child_id=job.pk).order_by("parent_id")
    found = [*(each for each in ids if each), *waited_for.values_list("parent_id", flat=True)[:SHOWN]]
    return list(dict.fromkeys(found))[:SHOWN]


def _batch_name(job: Job, alias: str) -> str:
    if job.batch_id is None:
        return ""
    return Batch.objects.using(alias).filter(pk=job.batch_id).values_list("name", flat=True).first() or ""
