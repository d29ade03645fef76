"""Choosing jobs for a list or a bulk operation, in a time that does not grow with the table.

State and queue are served by indexes and counted by the counts view. What no index serves (task, failure kind, text) is
looked for among the newest `WINDOW` jobs of that state and queue, and the answer says so. Reading only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.queues import counts_by_queue, total
from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import Job
from django_stampeded.states import FINAL, FailureKind, State

WINDOW = 10_000
COUNTED_TO = 10_000
WHOLE_FINGERPRINT = 32  # bytes
RECENT = 1_000
GROUPED = (State.RETRYABLE, State.DISCARDED)
"""The states whose jobs are indexed by the fingerprint of their error."""
REFUSALS = (FailureKind.THROTTLED, FailureKind.BREAKER_OPEN)
"""Kinds of failure that leave no error and no fingerprint."""
Counts = Mapping[str, Mapping[str, int]]
HEAVY_COLUMNS = ("args", "meta", "checkpoint", "errors", "last_error", "attempted_by", "dedup_key", "dedup_scope")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are wanted; empty parts do not narrow.

    Args:
        queue: of this queue.
        state: in this state.
        task: of this task, by its full name.
        failure_kind: whose latest failure was of this kind, and which have not completed since.
        fingerprint: whose latest error has this fingerprint, in hexadecimal; its first digits will do.
        text: an id, ``argument=value``, or a part of the task's name or of the error.
    """

    queue: str = ""
    state: str = ""
    task: str = ""
    failure_kind: str = ""
    fingerprint: str = ""
    text: str = ""

    @property
    def indexed(self) -> bool:
        """True when only state and queue narrow, so that the counts view knows the number."""
        return not (self.task or self.failure_kind or self.fingerprint or self.text.strip())

    @property
    def job_id(self) -> UUID | None:
        """The id that the text is, if it is one."""
        return parse_id(self.text)


@dataclass(frozen=True, slots=True)
class Selected:
    """The jobs chosen, newest first.

    Args:
        jobs: a queryset, without the heavy columns.
        total: how many they are, at most COUNTED_TO when it had to be counted.
        searched: how many of the newest jobs were looked at; None when all were.
    """

    jobs: QuerySet[Job]
    total: int
    searched: int | None = None


def parse_id(text: str) -> UUID | None:
    """The UUID written in the text, or None."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def select(
    selection: Selection,
    using: str | None = None,
    counts: Counts | None = None,
) -> Selected:
    """The jobs that a selection means, newest first, with their number.

    Args:
        selection: what is wanted.
        using: database alias; the setting DATABASE when None.
        counts: what `counts_by_queue` gave, if the caller has it already.

    Example:
        >>> select(Selection(state="discarded", queue="mail")).total
        3
    """
    alias = chosen(using)
    jobs = Job.objects.using(alias).defer(*HEAVY_COLUMNS)
    if not all(_storable(part) for part in astuple(selection)):
        return Selected(jobs.none(), 0)
    jobs = jobs.filter(**_indexed_part(selection))
    known = counts_by_queue(alias) if counts is None else counts
    if selection.indexed:
        number = total(known, selection.queue or None, selection.state or None)
        return Selected(newest_first(jobs, selection.state), number)
    wanted = _searched_part(selection)
    if selection.job_id is not None:
        jobs = jobs.filter(wanted, pk=selection.job_id)
        return Selected(newest_first(jobs), jobs.count())
    if selection.fingerprint and selection.state in {"", *GROUPED}:
        # An index has the fingerprints of these states, by id: nothing needs to be cut off.
        jobs = newest_first(jobs.filter(wanted, state__in=GROUPED))
        return Selected(jobs, jobs[:COUNTED_TO].count())
    window, cut = _window(jobs, selection, known)
    jobs = newest_first(jobs.filter(window).filter(wanted), selection.state)
    return Selected(jobs, jobs[:COUNTED_TO].count(), searched=WINDOW if cut else None)


def newest_first(jobs: QuerySet[Job], state: str = "") -> QuerySet[Job]:
    """The jobs in a total order that an index serves: final ones by when they finished, others by when they came."""
    return jobs.order_by("-finished_at", "-id") if state in FINAL else jobs.order_by("-id")


def _window(jobs: QuerySet[Job], selection: Selection, counts: Counts) -> tuple[Q, bool]:
    """Narrows to the newest WINDOW jobs, of each failed state where failures are wanted; and whether that cut any off."""
    windows: list[Q] = []
    cut = False
    for state in _states_of(selection):
        part = _part(state, selection)
        oldest = None
        if total(counts, selection.queue or None, state or None) > WINDOW:
            column = "finished_at" if state in FINAL else "id"
            rows = jobs.filter(part).order_by(f"-{column}").values_list(column, flat=True)
            oldest = rows[WINDOW : WINDOW + 1].first()
        if oldest is not None:
            cut = True
            part &= Q(**{f"{column}__gt": oldest})
        windows.append(part)
    return reduce(or_, windows), cut


def _states_of(selection: Selection) -> Sequence[str]:
    """The states to look into: those that a failure kind can be found in, where no state is chosen."""
    if selection.state or not selection.failure_kind:
        return [selection.state]
    return [State.CANCELLED] if selection.failure_kind == FailureKind.CANCELLED else GROUPED


def _part(state: str, selection: Selection) -> Q:
    """The jobs of a state, said so that an index of few entries serves it."""
    if not state:
        return Q()
    if state == State.RETRYABLE and selection.failure_kind not in {"", *REFUSALS}:
        return Q(state=state, error_fingerprint__isnull=False)
    return Q(state=state)


def _indexed_part(selection: Selection) -> dict[str, str]:
    parts = {"queue": selection.queue, "state": selection.state}
    return {name: value for name, value in parts.items() if value}


def _searched_part(selection: Selection) -> Q:
    wanted = Q()
    if selection.task:
        wanted &= Q(task=selection.task)
    if selection.failure_kind:
        wanted &= Q(failure_kind=selection.failure_kind)
    if selection.fingerprint:
        wanted &= _fingerprint_is(selection.fingerprint)
    if selection.text.strip() and selection.job_id is None:
        wanted &= _text_matches(selection.text.strip())
    return wanted


def _fingerprint_is(hexadecimal: str) -> Q:
    try:
        first = bytes.fromhex(hexadecimal)
    except ValueError:
        return Q(pk__in=[])
    if len(first) >= WHOLE_FINGERPRINT:
        return Q(error_fingerprint=first)
    beginning = Q(error_fingerprint__gte=first)
    after = int.from_bytes(first) + 1
    if after < 1 << 8 * len(first):
        beginning &= Q(error_fingerprint__lt=after.to_bytes(len(first)))
    return beginning


def _text_matches(text: str) -> Q:
    name, sign, value = text.partition("=")
    matches = Q(task__icontains=text) | Q(last_error__icontains=text)
    if sign and name.strip() and not Redactor(settings.REDACT).is_secret(name.strip()):
        # Whole values only, and never of a secret-looking name: a search must not spell a hidden argument out.
        for spelling in _spellings(value.strip()):
            matches |= Q(args__contains={name.strip(): spelling})
    return matches


def _storable(text: str) -> bool:
    """False for what PostgreSQL's text cannot hold (NUL, lone surrogates): a search for it would be an error."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _spellings(value: str) -> list[Any]:
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    if isinstance(read, float) and not math.isfinite(read):
        return [value]
    # {} and [] are contained in every object and list: as a search they would match everything.
    return [value] if isinstance(read, dict | list) or read == value else [value, read]


def recent_tasks(using: str | None = None) -> list[str]:
    """The tasks of the newest jobs, by name: what is worth offering as a filter."""
    newest = Job.objects.using(chosen(using)).order_by("-id").values_list("task", flat=True)[:RECENT]
    return sorted(set(newest))
