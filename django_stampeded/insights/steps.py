"""The steps of a job as its checkpoint records them, with secrets hidden; see the how-to of long jobs for the record's form.

Whatever wrote the record, a worker in another language perhaps, what stands in it is shown and nothing is believed of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django_stampeded.conf import settings
from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import Job
from django_stampeded.step_record import entries, state_of

SHOWN = 100


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One step.

    Args:
        name: its name.
        finished: whether it is done, so that later attempts skip it.
        cursor: how far it is; None where it told nothing.
        result: what it returned; None where it returned nothing.
    """

    name: str
    finished: bool
    cursor: Any = None
    result: Any = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a job has stored to go on from.

    Args:
        steps: its steps, in the order of the record, at most SHOWN.
        left_out: how many more there are.
        plain: the rest of it; None where there is none.
    """

    steps: list[StepFacts] = field(default_factory=list)
    left_out: int = 0
    plain: Any = None


def checkpoint_of(job: Job) -> Checkpoint:
    """What a job's checkpoint says.

    Args:
        job: any job with its checkpoint loaded.

    Example:
        >>> [step.name for step in checkpoint_of(job).steps if step.finished]
        ['download', 'parse']
    """
    redactor = Redactor(settings.REDACT)
    record = entries(job.checkpoint)
    names = list(record)[:SHOWN]
    steps = [_step(name, record[name], redactor) for name in names]
    return Checkpoint(steps, len(record) - len(names), redactor.value(state_of(job.checkpoint)))


def _step(name: str, entry: Any, redactor: Redactor) -> StepFacts:
    """A step whose name looks secret has its cursor and result hidden."""
    parts = entry if isinstance(entry, Mapping) else {"cursor": entry}
    shown = {part: redactor.value({name: parts[part]}).popitem()[1] for part in ("cursor", "result") if part in parts}
    return StepFacts(redactor.text(name), parts.get("done") is True, shown.get("cursor"), shown.get("result"))
