"""Going through all the jobs that a bulk act means: how many they are, and portion after portion of them.

Each state is read along its own index; where a portion ends, the next one goes on, also in another process. Reading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from django_stampeded.insights.alias import chosen
from django_stampeded.insights.paging import decoded, encoded, reader_of
from django_stampeded.insights.queues import counts_by_queue, total
from django_stampeded.insights.selection import Selection

COUNTED_TO = 10_000
LOOKED_AT = 100_000
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Group:
    """Those of a selection's jobs that an act goes for.

    Args:
        selection: which jobs are meant.
        states: in which states the act goes for them.
        also: what else must hold of a job.
    """

    selection: Selection
    states: Sequence[str]
    also: Q


@dataclass(frozen=True, slots=True)
class Number:
    """How many jobs there are.

    Args:
        jobs: how many were counted.
        exact: False when there are more: counting stops at COUNTED_TO jobs, or when LOOKED_AT rows have been looked at.
    """

    jobs: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of the jobs.

    Args:
        jobs: (queue, id) of each.
        position: where the next portion begins; empty when this was the last.
    """

    jobs: list[tuple[str, UUID]]
    position: str


def portion(group: Group, using: str | None = None, *, position: str = "", size: int = 200) -> Portion:
    """The next jobs of a group, at most `size`, behind a position that another portion gave; maybe none although more follow.

    Example:
        >>> portion(Group(Selection(queue="mail"), ("available",), Q())).jobs[:1]
        [('mail', UUID('019aaaaa-0000-7000-8000-000000000001'))]
    """
    alias = chosen(using)
    if not group.selection.storable:
        return Portion([], "")
    reader = reader_of(group.selection, alias, counts_by_queue(alias), group.states, group.also)
    found = reader.read(decoded(position, reader.ways), size)
    jobs = [(job.queue, job.pk) for job in found.jobs]
    return Portion(jobs, encoded("after", found.end) if found.more else "")


def number(group: Group, using: str | None = None) -> Number:
    """How many jobs a group has: from the counts where they know, else counted as far as the bounds allow.

    Example:
        >>> number(Group(Selection(state="discarded"), ("discarded",), Q()))
        Number(jobs=812, exact=True)
    """
    alias = chosen(using)
    selection = group.selection
    if not selection.storable:
        return Number(0)
    if selection.indexed and not group.also:
        counts = counts_by_queue(alias)
        states = [state for state in group.states if selection.state in {"", state}]
        return Number(sum(total(counts, selection.queue or None, state) for state in states))
    return _counted(group, alias)


def _counted(group: Group, alias: str) -> Number:
    reader = reader_of(group.selection, alias, counts_by_queue(alias), group.states, group.also)
    place, jobs, looked_at = None, 0, 0
    while True:
        found = reader.read(place, _AT_ONCE)
        jobs += len(found.jobs)
        looked_at += found.looked_at or len(found.jobs)
        if not found.more:
            return Number(jobs)
        if jobs >= COUNTED_TO or looked_at >= LOOKED_AT:
            return Number(jobs, exact=False)
        place = found.end
