"""Running the body of an `async def` job on an event loop: the counterpart of execution.perform.

`async_to_sync` makes an event loop and a thread for each call, which takes many times as long as a short job. So a job
thread enters it once and runs its async jobs there, one after the other, as long as there are some; each is a task of
its own, with a context of its own, and what it leaves running on the loop is cancelled at its end. What it calls by
`sync_to_async`, the ORM included, still runs in the job's thread, on the connections of that thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from django.dispatch import Signal

from django_stampeded import signals
from django_stampeded.worker import telling
from django_stampeded.worker.context import JobContext, context_of, enter
from django_stampeded.worker.execution import Recipe, Recipes, of_failure, of_result, prepare
from django_stampeded.worker.forking import forks_end_here
from django_stampeded.worker.interrupt import Guard
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Outcome

Result = BaseException | Outcome

SWEEP_S = 1.0
"""How long tasks that a job left behind may take to obey their cancellation."""


async def perform_async(lease: Lease, recipes: Recipes, guard: Guard) -> Outcome:
    """Run the async job of `lease` on the running loop; returns what to record, whatever the job does.

    `guard` is open while the body runs; what it sends arrives as a cancellation of the job's task.
    """
    recipe = recipes.of(lease.job.task)
    loop = asyncio.get_running_loop()
    context = copy_context()
    args = prepare(lease, recipe)
    if recipe is None or not isinstance(args, dict):
        await loop.create_task(_tell(lease, recipes.alias, args), context=context)  # type: ignore[arg-type]
        return args  # type: ignore[return-value]  # without a recipe there are no arguments
    body = _Body(partial(_body, recipe, lease, args, recipes.alias), loop, context)
    guard.open(lease, recipe.timeout, recipe.policy, body.cancel)
    try:
        exc = await body.start()
    finally:
        told = guard.reason if guard.sent else None
        guard.close()
    await _sweep()
    if not isinstance(exc, BaseException):
        return exc
    if told is not None and isinstance(exc, asyncio.CancelledError):
        exc = told().with_traceback(exc.__traceback__)
    outcome = of_failure(exc, lease, recipe)
    await loop.create_task(_tell(lease, recipes.alias, outcome, exc), context=context)
    return outcome


class _Body:
    """The task of a job's body. It can be cancelled from any thread, before it starts too."""

    def __init__(
        self, body: Callable[[], Coroutine[Any, Any, Result]], loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self._body = body
        self._loop = loop
        self._context = context
        self._task: asyncio.Task[Result] | None = None
        self._cancelled = False

    def start(self) -> asyncio.Task[Result]:
        """Start it. Python 3.12 and newer run it at once as far as its first wait, which spares a short job the loop."""
        if sys.version_info >= (3, 12):
            task = asyncio.Task(self._body(), loop=self._loop, context=self._context, eager_start=True)
        else:
            task = self._loop.create_task(self._body(), context=self._context)
        self._task = task
        if self._cancelled:
            task.cancel()
        return task

    def cancel(self) -> None:
        """Cancel it, at its next wait."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


async def _body(recipe: Recipe, lease: Lease, args: dict[str, Any], alias: str) -> Result:
    """The body, which returns what it raised: a task that raises SystemExit would end the loop and the jobs after it."""
    assert recipe.coroutine is not None
    enter(lease, alias)
    try:
        if signals.job_started.receivers:
            await _send(signals.job_started, lease, alias)
        first = (context_of(lease, alias),) if recipe.takes_context else ()
        with forks_end_here():
            result = await recipe.coroutine(*first, **args)
        outcome = of_result(result, recipe)
        if signals.job_completed.receivers:
            await _send(signals.job_completed, lease, alias)
    except BaseException as exc:
        return exc
    return outcome


async def _tell(lease: Lease, alias: str, outcome: Outcome, exc: BaseException | None = None) -> None:
    """Send the signals of an attempt that did not complete."""
    told = telling.of_end(lease, outcome, exc)
    if told:
        enter(lease, alias)
    for signal, arguments in told:
        await _send(signal, lease, alias, **arguments)


async def _send(signal: Signal, lease: Lease, alias: str, **more: Any) -> None:
    """Send a signal of a job: receivers that are plain functions run in the job's thread."""
    with suppress(Exception):
        await signal.asend_robust(JobContext, job=context_of(lease, alias), **more)


async def _sweep() -> None:
    """Cancel what the job left running on the loop, for the next job is not its heir."""
    left = asyncio.all_tasks()
    if len(left) == 1:
        return
    left.discard(asyncio.current_task())
    for task in left:
        task.cancel()
    await asyncio.wait(left, timeout=SWEEP_S)
