"""What to claim next: how many jobs, from which queues in which order, and when to look again.

Pure: told what is in hand and what the last claim brought, it decides; claimer.py does it.

How much to hold. A job thread must find its next job without waiting for the database, or the database sets the pace;
but what a worker holds and has not started is work that nobody else can do. So it holds beyond its threads only what
they will have worked off within a few tens of milliseconds, judged by what recent jobs took: hundreds of no-ops,
nothing at all of jobs that take seconds.

Whose turn it is. Queues are asked in a rotated order, one step further with every claim. A queue that gave all it was
asked for probably has more; when several such queues compete, each is asked for its share of the room only, so that a
deep queue can't take everything each time its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

HORIZON_S = 0.04
"""How much work, in seconds for each thread, may wait in the process beyond what is running."""
MOST_AHEAD = 600
"""Jobs held beyond the threads at most, however short they are."""
USUAL_TURN = 4
"""Each so many claims, queues that rush are asked in turn like others, so that these go on."""
LOOKS_AGAIN = (0.0, 0.005, 0.02, 0.05, 0.1, 0.25)
"""Seconds between the looks that follow the announcement that we wait again.

An enqueuer whose transaction began before the announcement may have left out its notification; these looks find its
jobs soon after it commits, and the poll finds those of a transaction that stays open longer.
"""


class Pace:
    """What recent jobs took: a running mean of their seconds, None before the first.

    Job threads call `observe` without a lock: an update lost now and then does not matter here.
    """

    __slots__ = ("mean",)
    WEIGHT = 0.05

    def __init__(self) -> None:
        self.mean: float | None = None

    def observe(self, seconds: float) -> None:
        """Take one job's duration into account."""
        mean = self.mean
        self.mean = seconds if mean is None else mean + (seconds - mean) * self.WEIGHT

    def slow_down(self, seconds: float) -> None:
        """Jobs were stuck for so long behind others: take that for the mean until better is seen."""
        self.mean = max(seconds, self.mean or 0.0)


def ahead(mean: float | None, threads: int) -> int:
    """How many jobs to hold beyond the threads, when jobs take `mean` seconds.

    Example: `ahead(0.01, threads=8) == 32; ahead(5.0, threads=8) == 0`
    """
    if mean is None:
        return 0
    return min(MOST_AHEAD, int(HORIZON_S * threads / max(mean, 1e-6)))


@dataclass(frozen=True, slots=True)
class Plan:
    """One claim: at most `limit` jobs in all, from `queues` in this order, at most `limits[i]` from the i-th.

    `tied` are the queues whose limit is what their bound leaves.
    """

    queues: list[str]
    limits: list[int]
    limit: int
    tied: frozenset[str] = frozenset()


def plan(
    queues: Sequence[str],
    *,
    turn: int,
    room: int,
    bounds: Mapping[str, int],
    held: Mapping[str, int],
    deep: frozenset[str] = frozenset(),
    rushed: frozenset[str] = frozenset(),
) -> Plan | None:
    """The next claim, or None where there is nothing to ask for.

    Args:
        queues: those to ask, in any stable order.
        turn: a number that grows with each claim; it says which queue comes first.
        room: how many jobs we can take.
        bounds: how many jobs of a queue we hold at most, where it is bounded.
        held: how many jobs of a queue we hold now, for those that are bounded.
        deep: the queues that have more than they gave last time.
        rushed: those to ask first and for all there is room for, but for each USUAL_TURN-th claim.
    """
    if room <= 0 or not queues:
        return None
    first = turn % len(queues)
    turns = [*queues[first:], *queues[:first]]
    if turn % USUAL_TURN == 0:
        rushed = frozenset()
    share = ceil(room / len(deep)) if len(deep) > 1 else room
    chosen, limits, tied = [], [], set()
    for queue in sorted(turns, key=lambda queue: queue not in rushed) if rushed else turns:
        most = share if queue in deep and queue not in rushed else room
        if queue in bounds and bounds[queue] - held.get(queue, 0) <= most:
            most = bounds[queue] - held.get(queue, 0)
            tied.add(queue)
        if most > 0:
            chosen.append(queue)
            limits.append(most)
    return Plan(chosen, limits, room, frozenset(tied)) if chosen else None


def deep_queues(asked: Plan, brought: Mapping[str, int], before: frozenset[str]) -> frozenset[str]:
    """The queues that have more than they gave: those that gave all they were asked for.

    A queue that was not asked, or not reached since others had used the room up, stays what it was.
    """
    left = asked.limit
    deep = set(before)
    for queue, limit in zip(asked.queues, asked.limits, strict=True):
        wanted = min(limit, left)
        if wanted <= 0:
            continue
        got = brought.get(queue, 0)
        (deep.add if got >= wanted else deep.discard)(queue)
        left -= got
    return frozenset(deep)


def came_full(asked: Plan, deep: frozenset[str]) -> bool:
    """Whether the claim left due jobs behind that we may take as soon as there is room.

    A queue that gave all that its bound allows says nothing about that: the others still need to wake us.
    """
    return any(queue in deep and queue not in asked.tied for queue in asked.queues)


def rest(*, stuck: bool, full: bool, room: int, until_look: float, quiet: float, poll: float, patience: float) -> float:
    """Seconds until the next look, if nothing wakes us before; 0 or less for at once.

    Args:
        stuck: there is no room, or what was claimed waits for a thread: so long as `patience`, then it goes back.
        full: the last claim left due jobs behind, so we go on as long as there is `room`, and else when some is made,
            which rings; `poll` is for a ring that was lost.
        until_look: seconds until the next job that we know of falls due, or is worth another try.
        quiet: seconds between two looks when nothing is known.
    """
    if stuck:
        return patience
    if full:
        return 0.0 if room > 0 else poll
    return min(until_look, quiet)


class Spell:
    """Whether enqueuers need to wake us, and how soon we look again by ourselves.

    Notifying costs an enqueuer a lock on the whole database, so a worker that finds more work each time it looks says
    that it is not waiting. It says so after the second full claim in a row, not the first, so that a small burst does
    not cost two announcements.
    """

    __slots__ = ("waiting", "_full", "_looks")

    def __init__(self) -> None:
        self.waiting = True
        self._full = 0
        self._looks = len(LOOKS_AGAIN)

    def claimed(self, full: bool) -> bool | None:
        """Note a claim that came back full, or short. What to announce: waiting, not waiting, or nothing (None)."""
        if full:
            self._full += 1
            if self.waiting and self._full >= 2:
                self.waiting = False
                return False
            return None
        self._full = 0
        if not self.waiting:
            self.waiting = True
            self._looks = 0
            return True
        return None

    def next_look(self, poll: float) -> float:
        """Seconds until the next look, if nothing wakes us before: soon after an announcement, then the poll interval."""
        if self._looks < len(LOOKS_AGAIN):
            self._looks += 1
            return min(LOOKS_AGAIN[self._looks - 1], poll)
        return poll
