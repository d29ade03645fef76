"""A job's life in the order of time: when it was enqueued, each attempt that failed, where it stands. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.translation import gettext

from django_stampeded.insights.errors import ErrorEntry
from django_stampeded.insights.jobs import JobFacts
from django_stampeded.states import FINAL, RUNNING

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a job.

    Args:
        at: when; None where nobody knows.
        what: in words.
        attempt: in which attempt, None outside of one.
        node: where, as far as it is on record.
        entry: the failure, if it was one.
    """

    at: datetime | None
    what: str
    attempt: int | None = None
    node: str = ""
    entry: ErrorEntry | None = None


def timeline(facts: JobFacts) -> list[Event]:
    """What happened to a job, the latest first.

    Example:
        >>> [event.what for event in timeline(facts)]
        ['executing', 'raised', 'enqueued']
    """
    events = []
    if facts.state in RUNNING:
        events.append(Event(facts.claimed_at, facts.state, facts.attempt, facts.worker))
    elif facts.state in FINAL:  # at the moment of the failure that ended the job, which came before
        events.append(Event(facts.finished_at, facts.state))
    events += [Event(entry.at, entry.kind, entry.attempt, entry.node, entry) for entry in facts.errors]
    events.append(Event(facts.inserted_at, gettext("enqueued")))
    return sorted(events, key=lambda event: event.at or _EARLIEST, reverse=True)
