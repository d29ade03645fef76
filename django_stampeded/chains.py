"""Chains: jobs that run one after the other, with steps of several at once.

Owns the public `chain`. That a job waits for others, and hears how they ended, is in SQL (stampeded_depend).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from django_stampeded.enqueueing import EnqueuedJob
from django_stampeded.exceptions import InvalidOption
from django_stampeded.options import checked
from django_stampeded.results import database
from django_stampeded.tasks import Call, Task

Step = Task[..., Any] | Call | Sequence[Task[..., Any] | Call]


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps to be enqueued together. Made by `chain`."""

    steps: tuple[tuple[Call, ...], ...]
    on_discard: str

    def enqueue(self, using: str | None = None) -> list[EnqueuedJob]:
        """Writes all jobs, or none, and returns them in the order of the steps, the last one last.

        `using` is a database alias, None for the router's choice. Raises InvalidArguments and InvalidOption as `Task.enqueue`.

        Example: `chain(fetch.with_args(url=url), parse).enqueue()[-1].wait(timeout=60)`
        """
        alias = database(using)
        jobs: list[EnqueuedJob] = []
        before: list[EnqueuedJob] = []
        with transaction.atomic(using=alias):
            for step in self.steps:
                options: dict[str, Any] = {"using": alias}
                if before:
                    options |= {"depends_on": before, "on_discard": self.on_discard}
                before = [call.task.using(**options).enqueue(**call.args) for call in step]
                jobs += before
        return jobs

    async def aenqueue(self, using: str | None = None) -> list[EnqueuedJob]:
        """`enqueue` for async code."""
        return await sync_to_async(self.enqueue)(using)


def chain(*steps: Step, on_discard: str = "fail") -> Chain:
    """Jobs of which each starts when the one before it has ended.

    Args:
        steps: tasks, or tasks `with_args`; a list of those is one step, whose jobs run side by side and must all have ended
            before the next step starts.
        on_discard: what a discarded or cancelled job means to those after it: "fail" discards them too, "run" lets them run.

    Each job finds what those of the step before have returned, where their tasks say `store_result`, in its context's
    `parent_results`. Raises InvalidOption for no steps and for what is no task.

    Example: `chain(fetch.with_args(url=url), [resize, describe], publish).enqueue()`
    """
    calls = []
    for step in steps:
        several = step if isinstance(step, list | tuple) else [step]
        calls.append(tuple(Call.of(each, "chain()") for each in several))
    if not calls or not all(calls):
        raise InvalidOption("chain() needs at least one task in each step: leave out the empty ones.")
    for number, call in ((number, call) for number, step in enumerate(calls) for call in step):
        if number and call.task.depends_on:
            raise InvalidOption("Only the first step of a chain may have depends_on: the others wait for the step before them.")
    return Chain(tuple(calls), checked({"on_discard": on_discard})["on_discard"])
