"""The planner's verdicts as a claimer follows them: which queues to ask first and which not at all.

They are advice: what may be claimed is decided in SQL, and a worker that can't be told goes on in the usual order.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from django_stampeded import plan_functions
from django_stampeded.planning import HOLD, RUSH
from django_stampeded.process.link import Cursor

LOOK_S = 2.0
"""Seconds between two looks at the verdicts, by a worker that claims. An idle one needs none."""


class Advice:
    """The verdicts last seen. `deaf`: take no notice of queues that are held, as one must that drains them."""

    def __init__(self, deaf: bool = False) -> None:
        self.rushed: frozenset[str] = frozenset()
        self.held: frozenset[str] = frozenset()
        self._deaf = deaf
        self._looked_at: float | None = None

    def refresh(self, cur: Cursor) -> None:
        """Look, if the last look is long enough ago. Raises the driver's errors."""
        now = monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        verdicts = plan_functions.verdicts(cur)
        self.rushed = frozenset(queue for queue, verdict in verdicts.items() if verdict == RUSH)
        self.held = frozenset(q for q, verdict in verdicts.items() if verdict == HOLD and not self._deaf)

    def followed(self, queues: Iterable[str]) -> list[str]:
        """Those of `queues` to claim from, in their order."""
        return [queue for queue in queues if queue not in self.held]
