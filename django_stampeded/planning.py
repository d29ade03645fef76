"""The planner's verdicts: which queues rush, since their jobs wait longer than they may, and which are held in their favour.

Pure. Only queues whose policy says how long their jobs may wait (max_wait_secs) are judged:

- one whose oldest due job has waited longer rushes, until that is down to half of it;
- while a rushing queue is overdue by as much again, those that share workers with it are held. But each is held on its own
  promise only, as long as its jobs have waited for no more than half of what they may; so nobody starves, and a queue that
  promises nothing is never held.

A queue from which nobody may claim can't be helped by workers: it neither rushes nor has others held.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

STEADY, RUSH, HOLD = "steady", "rush", "hold"

EVERY = "*"
"""What a worker of every queue has on record for its queues."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What is judged.

    Args:
        queue: its name.
        max_wait: seconds that its jobs may wait, None where its policy does not say.
        waited: seconds that its oldest due job has waited, None where none is due.
        verdict: the one in force, steady where it has gone stale.
        blocked: whether a pause, a limit or an open breaker keeps workers from its jobs.
    """

    queue: str
    max_wait: int | None
    waited: float | None = None
    verdict: str = STEADY
    blocked: bool = False


class Decision(NamedTuple):
    """A verdict and its reason, None for steady."""

    verdict: str
    reason: str | None = None


def decide(figures: Sequence[QueueFigures], workers: Collection[Collection[str]]) -> dict[str, Decision]:
    """The verdict on each queue. `workers`: the queues of each live worker.

    Example: `decide([QueueFigures("mail", max_wait=10, waited=11.0)], [])["mail"].verdict == "rush"`
    """
    rushing = [each for each in figures if _rushes(each)]
    overdue = [each for each in rushing if (each.waited or 0) > 2 * (each.max_wait or 0)]
    decisions = {}
    for each in figures:
        if each in rushing:
            decisions[each.queue] = Decision(
                RUSH, f"its oldest job has waited {each.waited:.0f} s, and {each.max_wait} s is what it may"
            )
            continue
        favoured = next((other for other in overdue if _may_wait_for(each) and _share(each.queue, other.queue, workers)), None)
        decisions[each.queue] = Decision(STEADY) if favoured is None else Decision(HOLD, f"queue {favoured.queue} is overdue")
    return decisions


def _rushes(figures: QueueFigures) -> bool:
    if figures.max_wait is None or figures.waited is None or figures.blocked:
        return False
    return figures.waited > (figures.max_wait / 2 if figures.verdict == RUSH else figures.max_wait)


def _may_wait_for(figures: QueueFigures) -> bool:
    return figures.max_wait is not None and (figures.waited or 0) <= figures.max_wait / 2


def _share(one: str, other: str, workers: Collection[Collection[str]]) -> bool:
    return any((one in queues and other in queues) or EVERY in queues for queues in workers)
