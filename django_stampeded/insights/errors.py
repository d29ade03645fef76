"""A job's recorded failures made readable: a summary line, the rest folded, secrets hidden. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from django_stampeded.insights.redaction import Redactor

LONGEST_ERROR = 4_000
LONGEST_SUMMARY = 200


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One entry of a job's errors ring.

    Args:
        at: when it happened; None if the entry does not say.
        attempt: of which attempt.
        kind: a FailureKind.
        summary: one line.
        text: all of it.
        destination: the downstream concerned, if any.
        exit_status: of the process, if one ended.
        count: how many failures share the entry.
        worker: id of the worker that ran the attempt, "" where none did.
        node: that worker's host.
        duration_s: seconds from the claim to the failure.
    """

    at: datetime | None
    attempt: int | None
    kind: str
    summary: str
    text: str
    destination: str = ""
    exit_status: int | None = None
    count: int = 1
    worker: str = ""
    node: str = ""
    duration_s: float | None = None


def read_ring(ring: Any, redactor: Redactor) -> list[ErrorEntry]:
    """The errors ring of a job, newest first; what is not an entry is shown as text rather than refused."""
    if not isinstance(ring, Sequence) or isinstance(ring, str):
        return []
    return [_read_entry(entry, redactor) for entry in reversed(ring)]


def summary_of(text: str) -> str:
    """The line of an error that says what went wrong: the last one of a traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    chosen = lines[-1] if any(line.startswith("Traceback (") for line in lines) else lines[0]
    return chosen if len(chosen) <= LONGEST_SUMMARY else f"{chosen[:LONGEST_SUMMARY]}…"


def _read_entry(entry: Any, redactor: Redactor) -> ErrorEntry:
    if not isinstance(entry, Mapping):
        text = redactor.text(str(entry), LONGEST_ERROR)
        return ErrorEntry(None, None, "", summary_of(text), text)
    text = redactor.text(_whole_text(entry), LONGEST_ERROR)
    duration = entry.get("duration_s")
    return ErrorEntry(
        at=_moment(entry.get("at")),
        attempt=_whole(entry.get("attempt")),
        kind=str(entry.get("kind") or ""),
        summary=summary_of(text),
        text=text,
        destination=str(entry.get("destination") or ""),
        exit_status=_whole(entry.get("exit_status")),
        count=_whole(entry.get("count")) or 1,
        worker=str(entry.get("worker") or ""),
        node=str(entry.get("node") or ""),
        duration_s=float(duration) if isinstance(duration, int | float) else None,
    )


def _whole_text(entry: Mapping[str, Any]) -> str:
    """The message, or, where that was cut short, its first line and the trace kept beside it."""
    message, trace = str(entry.get("message") or ""), entry.get("trace")
    return f"{message.partition(chr(10))[0]}\n{trace}" if isinstance(trace, str) and trace else message


def _moment(value: Any) -> datetime | None:
    try:
        return parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
