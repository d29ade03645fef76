"""Reading the jobs of a selection, page by page, in a time that does not grow with the table or with the page's depth.

A selection is read along one or more ways, each the order of an index: nothing is sorted that the index has not sorted, no
row is skipped by number, and the next page begins behind the key of the last row seen. Where something narrows that the index
does not know, one page looks at no more than `WINDOW` rows of the way, says so, and the next page goes on from there.

Jobs of a final state are in the order in which they ended, the latest first; available ones in the order in which they
will be claimed; others by id, the newest first. Reading only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import DateTimeField, F, Func, Q, QuerySet, SmallIntegerField, TextField, UUIDField, Value
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.utils.dateparse import parse_datetime

from django_stampeded import operator_functions
from django_stampeded.columns import is_priority
from django_stampeded.insights import arguments_index
from django_stampeded.insights.alias import chosen, planned
from django_stampeded.insights.queues import counts_by_queue, total
from django_stampeded.insights.selection import (
    GROUPED,
    Selection,
    Shown,
    batch_is,
    fingerprint_is,
    has_any,
    narrowing,
    time_range,
)
from django_stampeded.models import Job
from django_stampeded.states import FINAL, RUNNING, WAITING, FailureKind, State

WINDOW = 10_000
VERIFIED_AT_ONCE = 200
LONGEST_CURSOR = 2_000
Counts = Mapping[str, Mapping[str, int]]
HEAVY_COLUMNS = ("args", "meta", "checkpoint", "errors", "last_error", "attempted_by", "dedup_key", "dedup_scope")
_FIELDS: dict[str, Any] = {
    "queue": TextField(), "priority": SmallIntegerField(), "scheduled_at": DateTimeField(), "finished_at": DateTimeField(),
    "id": UUIDField(),
}  # fmt: skip
NEWEST = ("-id",)
LATEST = ("-finished_at", "-id")
AS_CLAIMED: tuple[str, ...] = ("queue", "priority", "scheduled_at", "id")


@dataclass(frozen=True, slots=True)
class Way:
    """One index to read along, and what of the selection it leaves to be looked at row by row.

    Args:
        base: what the index serves.
        order: its order; all of one direction.
        rest: what it does not serve.
        windowed: whether a page has to stop after WINDOW rows looked at.
        sorted_here: whether the index has no order, so that what it finds, WINDOW rows at most, is sorted for each page.
    """

    base: Q
    order: tuple[str, ...]
    rest: Q = field(default_factory=Q)
    windowed: bool = True
    sorted_here: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name.removeprefix("-") for name in self.order)

    def key_of(self, job: Job) -> tuple[Any, ...]:
        """Where a job stands in this order."""
        return tuple(getattr(job, name) for name in self.columns)

    def part(self, key: Sequence[Any], *, beyond: bool, backwards: bool, inclusive: bool = False) -> Any:
        """The rows that come after a key, or before it (`beyond` False), as one comparison of rows that the index serves."""
        descending = self.order[0].startswith("-")
        greater = (descending == backwards) == beyond
        kinds = (GreaterThan, GreaterThanOrEqual) if greater else (LessThan, LessThanOrEqual)
        values = (Value(value, output_field=_FIELDS[name]) for name, value in zip(self.columns, key, strict=True))
        return kinds[inclusive](_Row(*map(F, self.columns)), _Row(*values))

    def ordered(self, backwards: bool) -> list[str]:
        """The order, or the reverse of it."""
        flipped = [name.removeprefix("-") if name.startswith("-") else f"-{name}" for name in self.order]
        return flipped if backwards else list(self.order)


class _Row(Func):
    """A row of several columns, to be compared as a whole."""

    template = "ROW(%(expressions)s)"
    output_field = TextField()  # of what is compared nothing is converted


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs.

    Args:
        jobs: without the heavy columns, in the selection's order.
        older: the cursor of the next page; empty where this is the last.
        newer: the cursor of the page before; empty where this is the first.
        total: how many jobs the selection means, where the counts view knows it or this page has all of them.
        searched: how many rows this page looked at, where it stopped before it was full; None otherwise.
    """

    jobs: list[Job]
    older: str = ""
    newer: str = ""
    total: int | None = None
    searched: int | None = None


def page(
    selection: Selection,
    using: str | None = None,
    *,
    cursor: str = "",
    size: int = 50,
    counts: Counts | None = None,
) -> Page:
    """One page of the jobs that a selection means.

    Args:
        selection: what is wanted.
        using: database alias; the setting DATABASE when None.
        cursor: `older` or `newer` of another page of the same selection; the first page when empty or not to be read.
        size: most jobs of the page.
        counts: what `counts_by_queue` gave, if the caller has it already.

    Example:
        >>> first = page(Selection(state="discarded"))
        >>> second = page(Selection(state="discarded"), cursor=first.older)
    """
    alias = chosen(using)
    if not selection.storable:
        return Page([], total=0)
    known = counts_by_queue(alias) if counts is None else counts
    reader = reader_of(selection, alias, known)
    number = total(known, selection.queue or None, selection.state or None) if selection.indexed else None
    at = decoded(cursor, reader.ways)
    found = reader.read(at, size)
    if at is not None and at.backwards and (len(found.jobs) < size and not found.cut):
        at, found = None, reader.read(None, size)  # the beginning: a full first page is more use than a short one
    jobs = found.jobs
    first, last = (found.end, found.start) if at is not None and at.backwards else (found.start, found.end)
    if at is not None and at.backwards:
        jobs = jobs[::-1]
        return Page(jobs, encoded("after", last), encoded("before", first), number, found.looked_at)
    if number is None and at is None and not found.more:
        number = len(jobs)
    newer = ""
    if at is not None:  # behind the last job there is none to go back from but the one of the cursor
        newer = encoded("before", first) if first is not None else encoded("until", at)
    return Page(jobs, encoded("after", last) if found.more else "", newer, number, found.looked_at)


def reader_of(
    selection: Selection, alias: str, counts: Counts, states: Sequence[str] | None = None, also: Q | None = None
) -> Reader:
    """What reads the jobs of a selection, one way after the other.

    Args:
        selection: what is wanted.
        alias: the database.
        counts: jobs by queue and state.
        states: read these states, each by its own index; None leaves it to the selection.
        also: what else must hold of a job.
    """
    asked = _asked(selection, states)
    if asked and arguments_index.finds_few(selection, alias, WINDOW):
        return Reader(selection, alias, [_matches(selection, asked, also or Q())])
    return Reader(selection, alias, _ways(selection, counts, asked, also or Q()))


def _ways(selection: Selection, counts: Counts, states: Sequence[str], also: Q) -> list[Way]:
    if selection.job_id is not None:
        exact = Q(pk=selection.job_id) & _state_and_queue(selection, selection.state)
        return [Way(exact & narrowing(selection) & _fingerprint(selection) & also, NEWEST, windowed=False)]
    return [_way(selection, state, counts, also) for state in states]


def _matches(selection: Selection, states: Sequence[str], also: Q) -> Way:
    """Few jobs have the argument: all of them, the newest first, whatever else narrows."""
    place = Q()
    for state in states:
        place |= (Q(state=state) if state else Q()) & time_range(selection, state)
    rest = narrowing(replace(selection, text="")) & _state_and_queue(selection, "") & _fingerprint(selection) & place & also
    return Way(has_any(selection.arguments), NEWEST, rest, windowed=False, sorted_here=True)


def _asked(selection: Selection, states: Sequence[str] | None) -> Sequence[str]:
    """The states to look into; "" is any."""
    if states is None:
        return _states_of(selection)
    if selection.state:
        return [state for state in states if state == selection.state]
    if selection.fingerprint:  # the failed jobs, as the page of errors shows them
        return [state for state in states if state in GROUPED]
    return states


def _way(selection: Selection, state: str, counts: Counts, also: Q) -> Way:
    rest = narrowing(selection) & also
    time = time_range(selection, state)
    queue = Q(queue=selection.queue) if selection.queue else Q()
    if selection.fingerprint and state in {"", *GROUPED}:
        rest = rest & queue & time & (Q(state=state) if state else Q())
        return Way(Q(state__in=GROUPED) & fingerprint_is(selection.fingerprint), NEWEST, rest, bool(rest))
    rest &= _fingerprint(selection)
    if selection.batch:
        rest = (
            narrowing(replace(selection, batch="")) & also & _fingerprint(selection) & _state_and_queue(selection, state) & time
        )
        return Way(batch_is(selection.batch), NEWEST, rest, bool(rest))
    if state in RUNNING:  # no more of them than workers have threads
        return Way(Q(state__in=RUNNING) & queue, NEWEST, rest & time & Q(state=state), windowed=False)
    if state == State.AVAILABLE:
        order: tuple[str, ...] = AS_CLAIMED[1:] if selection.queue else AS_CLAIMED
        return Way(Q(state__in=WAITING) & queue, order, rest & time & Q(state=state))
    order = LATEST if state in FINAL else NEWEST
    if state in FINAL:
        time &= Q(finished_at__isnull=False)  # a null has no place in an order by comparison
    if state and selection.queue and total(counts, selection.queue) <= WINDOW:
        return Way(queue, order, rest & time & Q(state=state), windowed=False)
    if state:
        rest = rest & queue
        return Way(Q(state=state) & time, order, rest, bool(rest))
    return Way(queue & time, order, rest, bool(rest))


def _states_of(selection: Selection) -> Sequence[str]:
    """The states to look into: those that a failure kind can be found in, where no state is chosen."""
    if selection.state or not selection.failure_kind or selection.fingerprint:
        return [selection.state]
    return [State.CANCELLED] if selection.failure_kind == FailureKind.CANCELLED else GROUPED


def _state_and_queue(selection: Selection, state: str) -> Q:
    return Q(**{name: value for name, value in (("state", state), ("queue", selection.queue)) if value})


def _fingerprint(selection: Selection) -> Q:
    return fingerprint_is(selection.fingerprint) if selection.fingerprint else Q()


@dataclass(frozen=True, slots=True)
class Place:
    """A place beside a job: the number of the way, the job's key on it, which direction to go, and whether with that job."""

    way: int
    key: tuple[Any, ...]
    backwards: bool = False
    inclusive: bool = False


@dataclass(slots=True)
class Found:
    """What one reading gave, in the direction of reading."""

    jobs: list[Job] = field(default_factory=list)
    start: Place | None = None
    end: Place | None = None
    more: bool = False
    cut: bool = False
    looked_at: int | None = None


class Reader:
    """Reads the jobs of a selection along its ways.

    Args:
        selection: what is wanted.
        alias: the database.
        along: the ways.
    """

    def __init__(self, selection: Selection, alias: str, along: list[Way]) -> None:
        self.ways = along
        self.shown = Shown(selection)
        heavy = [name for name in HEAVY_COLUMNS if not (self.shown.needed and name in {"args", "last_error"})]
        self._jobs = Job.objects.using(alias).defer(*heavy)

    def read(self, at: Place | None, size: int) -> Found:
        """Up to `size` jobs behind a place; stops early where WINDOW rows of a way have been looked at."""
        backwards = at is not None and at.backwards
        found = Found()
        numbers = range(at.way if at else 0, -1 if backwards else len(self.ways), -1 if backwards else 1)
        for number in numbers:
            end = self._read_way(found, number, at if at is not None and number == at.way else None, backwards, size)
            if end is not None:
                found.end, found.more = end, True
                return found
        return found

    def _read_way(self, found: Found, number: int, at: Place | None, backwards: bool, size: int) -> Place | None:
        """Adds the jobs of one way to what was found; the place to go on from, None where this way is at its end."""
        with self._planned(self.ways[number]):
            return self._read_step(found, number, at, backwards, size)

    def _planned(self, way: Way) -> AbstractContextManager[None]:
        if way.sorted_here:
            return planned(self._jobs.db, operator_functions.BY_MATCHES)
        return planned(self._jobs.db, operator_functions.ALONG_AN_INDEX) if way.windowed else nullcontext()

    def _read_step(self, found: Found, number: int, at: Place | None, backwards: bool, size: int) -> Place | None:
        way = self.ways[number]
        rows = self._jobs.filter(way.base)
        if at is not None:
            rows = rows.filter(way.part(at.key, beyond=True, backwards=backwards, inclusive=at.inclusive))
        edge = None
        if way.windowed:
            edge = rows.order_by(*way.ordered(backwards)).values_list(*way.columns)[WINDOW - 1 : WINDOW].first()
        if edge is not None:
            rows = rows.filter(way.part(edge, beyond=False, backwards=backwards, inclusive=True))
        rows = rows.filter(way.rest).order_by(*way.ordered(backwards))
        for job in self._verified(rows, way, backwards, size - len(found.jobs) + 1):
            if len(found.jobs) == size:
                return found.end
            found.jobs.append(job)
            found.end = Place(number, way.key_of(job))
            found.start = found.start or found.end
        if edge is None:
            return None
        found.cut, found.looked_at = True, WINDOW
        found.start = found.start or Place(number, tuple(edge))
        return Place(number, tuple(edge))

    def _verified(self, rows: QuerySet[Job], way: Way, backwards: bool, wanted: int) -> Iterator[Job]:
        if not self.shown.needed:
            yield from rows[:wanted]
            return
        portion = list(rows[:VERIFIED_AT_ONCE])
        while portion:
            yield from (job for job in portion if self.shown(job))
            if len(portion) < VERIFIED_AT_ONCE:
                return
            behind = way.part(way.key_of(portion[-1]), beyond=True, backwards=backwards)
            portion = list(rows.filter(behind)[:VERIFIED_AT_ONCE])


def encoded(direction: str, place: Place | None) -> str:
    """A place as text: a page's cursor, `direction` being "after" or "before" the job there, or "until" it."""
    if place is None:
        return ""
    key = [value.isoformat() if isinstance(value, datetime) else value for value in place.key]
    return f"{direction}:{json.dumps([place.way, *key], default=str)}"


def decoded(cursor: str, along: Sequence[Way]) -> Place | None:
    """The place that a cursor names; None for one that names none on these ways, as after the selection has changed."""
    direction, sign, text = cursor.partition(":")
    if direction not in {"after", "before", "until"} or not sign or len(text) > LONGEST_CURSOR:
        return None
    try:
        number, *values = json.loads(text)
        way = along[number] if isinstance(number, int) and number >= 0 else None
        if way is None or len(values) != len(way.columns):
            return None
        key = tuple(_READ[name](value) for name, value in zip(way.columns, values, strict=True))
    except (ValueError, TypeError, IndexError, RecursionError, AttributeError):
        return None
    return Place(number, key, direction != "after", direction == "until")


def _moment(value: str) -> datetime:
    moment = parse_datetime(value)
    if moment is None or moment.tzinfo is None:
        raise ValueError(value)
    return moment


def _name(value: str) -> str:
    if not isinstance(value, str) or "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(value)
    return value


def _priority(value: int) -> int:
    if not is_priority(value):
        raise ValueError(value)
    return value


_READ: dict[str, Any] = {
    "queue": _name, "priority": _priority, "scheduled_at": _moment, "finished_at": _moment, "id": UUID
}  # fmt: skip
