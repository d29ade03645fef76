"""Keeps the planner's verdicts: reads how long jobs wait, decides in planning.py, and writes what has changed.

Any number of planners may do so at once: they come to the same verdicts, and one that stands is not written again before it
is about to go stale.
"""

from __future__ import annotations

from typing import Any

from django_stampeded import plan_functions
from django_stampeded.maintenance.service import Report
from django_stampeded.planning import decide


class Planner:
    """Plans. Without a policy that has a max_wait_secs it only looks whether there is one."""

    name = "planner"
    interval = 2.0

    def run_once(self, cur: Any) -> Report:
        """Judge each queue once."""
        figures = plan_functions.figures(cur)
        if not figures:
            return Report()
        decisions = decide(figures, plan_functions.workers(cur))
        return Report(sum(plan_functions.set_verdict(cur, queue, decision) for queue, decision in decisions.items()))
