"""How far a job said that it is, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import Progress


@dataclass(frozen=True, slots=True)
class ProgressFacts:
    """What a job said last.

    Args:
        done: units done, of `total` where that is known.
        percent: 0 to 100, None where the total is not known.
        message: what it was at, secrets hidden.
        attempt: the attempt that said so.
        at: when that was written.
        words: all this in a line.
    """

    done: int
    total: int | None
    percent: int | None
    message: str
    attempt: int
    at: datetime
    words: str


def progress_of(job_id: UUID, redactor: Redactor, alias: str) -> ProgressFacts | None:
    """What the job said last of its progress; None where it said nothing."""
    row = Progress.objects.using(alias).filter(pk=job_id).first()
    if row is None:
        return None
    message = redactor.text(row.message)
    percent = percent_of(row.done, row.total)
    return ProgressFacts(
        row.done, row.total, percent, message, row.attempt, row.updated_at, in_line(row.done, row.total, percent, message)
    )


def percent_of(done: int, total: int | None) -> int | None:
    """How much that is of the whole, 100 at most and not before it is all: 999 of 1000 are 99."""
    return None if not total else min(100, done * 100 // total)


def in_line(done: int, total: int | None, percent: int | None, message: str) -> str:
    """The progress in words.

    Example: `in_line(4, 10, 40, "page 4") == "4 of 10 (40 %): page 4"`
    """
    line = str(done) if total is None else f"{done} of {total}"
    if total == 100:
        line = f"{done} %"
    elif percent is not None:
        line += f" ({percent} %)"
    return f"{line}: {message}" if message else line
