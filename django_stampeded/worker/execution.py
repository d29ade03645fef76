"""Running one job's body in the current thread: find the task, decode the arguments, call it, read off the outcome.

The only module that runs user code. It talks to no queue: what it returns is recorded by acker.py, or by whoever runs
jobs elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from inspect import iscoroutine
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.dispatch import Signal

from django_stampeded import registry, signals
from django_stampeded.encoding import encode_value
from django_stampeded.exceptions import Discard, InvalidArguments
from django_stampeded.worker import messages, telling, transactional
from django_stampeded.worker.context import JobContext, context_of, enter
from django_stampeded.worker.forking import forks_end_here
from django_stampeded.worker.interrupt import Guard
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import (
    COMPLETED,
    Completed,
    Outcome,
    of_bad_arguments,
    of_exception,
    of_lost_failure,
    of_unknown_task,
)
from django_stampeded.worker.raw_json import loaded
from django_stampeded.worker.retry_policy import RetryPolicy

MAX_RESULT_BYTES = 65_536

_HERE = os.path.dirname(__file__) + os.sep


@dataclass(frozen=True, slots=True)
class Recipe:
    """What there is to know about a task to run its jobs, worked out once. `coroutine` is its function if that is async."""

    call: Callable[..., Any]
    coroutine: Callable[..., Any] | None
    decode: Callable[[Any], dict[str, Any]]
    takes_context: bool
    timeout: float | None
    policy: RetryPolicy
    is_isolated: bool
    is_transactional: bool = False
    keep_s: float | None = None
    """For how many seconds its result is kept, None for not at all."""


class Elsewhere(Protocol):
    """Whatever runs a job outside of this process."""

    def run(self, lease: Lease, timeout: float | None, guard: Guard, policy: RetryPolicy) -> Outcome:
        """Run the job of `lease`, whose task has this policy; returns what to record. Raises nothing."""
        ...


class Recipes:
    """Recipes by task, for jobs of the database of `alias`. A task declared anew (a reload, a test) gets a new one.

    `elsewhere` runs jobs of tasks that want a process of their own; without it they run here.
    """

    def __init__(self, alias: str, elsewhere: Elsewhere | None = None) -> None:
        self.alias = alias
        self.elsewhere = elsewhere
        self._known: dict[Any, Recipe] = {}

    def of(self, name: str) -> Recipe | None:
        """How to run jobs of that task name, None where this process has no function for it."""
        task = registry.get(name)
        if task is None or task.func is None or task.signature is None:
            return None
        found = self._known.get(task)
        if found is None:
            coroutine = task.func if iscoroutinefunction(task.func) else None
            call = task.func if coroutine is None else async_to_sync(coroutine)
            policy = policy_of(task)
            isolated = task.isolation == "process"
            whole = task.transactional
            keep_s = task.result_ttl if task.store_result else None
            decode = task.signature.decode
            found = Recipe(call, coroutine, decode, task.takes_context, task.time_limit, policy, isolated, whole, keep_s)
            self._known[task] = found
        return found

    def are_async(self, name: str) -> bool:
        """Whether jobs of that task are coroutines to be run in this process."""
        recipe = self.of(name)
        return recipe is not None and recipe.coroutine is not None and not (recipe.is_isolated and self.elsewhere)


def policy_of(task: Any) -> RetryPolicy:
    """The retry policy that a task's declaration has."""
    return RetryPolicy(task.backoff_base, task.backoff_max, task.backoff, task.retry_on, task.discard_on)


def prepare(lease: Lease, recipe: Recipe | None) -> dict[str, Any] | Outcome:
    """The arguments for the body of the job of `lease`, or its outcome where it can't be called."""
    job = lease.job
    if recipe is None:
        unknown = of_unknown_task(datetime.now(UTC) - job.inserted_at)
        messages.unknown_task(lease, unknown)
        return unknown
    try:
        args = recipe.decode(loaded(job.args))
    except BaseException as exc:  # a class of the project's own may do anything while it is made from its value
        return of_bad_arguments(exc)
    lease.started_at = monotonic()
    return args


def perform(lease: Lease, recipes: Recipes, guard: Guard) -> Outcome:
    """Run the job of `lease` here and now; returns what to record. Raises nothing, whatever the job does.

    `guard` is open while the body runs, so that a timeout or a cancellation reaches it and nothing else.
    """
    recipe = recipes.of(lease.job.task)
    lease.completes_itself = recipe is not None and recipe.is_transactional
    if recipe is not None and recipe.is_isolated and recipes.elsewhere is not None:
        return recipes.elsewhere.run(lease, recipe.timeout, guard, recipe.policy)
    context = copy_context()
    args = prepare(lease, recipe)
    if recipe is None or not isinstance(args, dict):
        context.run(_tell, lease, recipes.alias, args)  # type: ignore[arg-type]
        return args  # type: ignore[return-value]  # without a recipe there are no arguments
    over = False
    outcome: Outcome = COMPLETED
    try:
        guard.open(lease, recipe.timeout, recipe.policy)
        try:
            outcome = context.run(_call, recipe, lease, args, recipes.alias, guard.close)
            over = True
        finally:
            guard.close()
    except BaseException as exc:
        if not over:  # else an interrupt struck after the body's last line: it came too late
            outcome = of_failure(exc, lease, recipe)
            context.run(_tell, lease, recipes.alias, outcome, exc)
            return outcome
    return outcome


def of_failure(exc: BaseException, lease: Lease, recipe: Recipe) -> Outcome:
    """The outcome of a body that raised. Raises nothing, whatever the exception's class and the task's policy do."""
    try:
        return of_exception(_trimmed(exc), lease.job.attempt, recipe.policy, partial(messages.useless_backoff, lease))
    except BaseException as problem:
        return of_lost_failure(exc, problem)


def _call(recipe: Recipe, lease: Lease, args: dict[str, Any], alias: str, body_is_over: Callable[[], None]) -> Outcome:
    """The job, in a context of its own: what it sets in context variables ends with it."""
    enter(lease, alias)
    if signals.job_started.receivers:
        _send(signals.job_started, lease, alias)
    if recipe.is_transactional:
        outcome = transactional.run(lease, alias, partial(_body, recipe, lease, args, alias), body_is_over)
    else:
        outcome = _body(recipe, lease, args, alias)
    if signals.job_completed.receivers:
        _send(signals.job_completed, lease, alias)
    return outcome


def _body(recipe: Recipe, lease: Lease, args: dict[str, Any], alias: str) -> Outcome:
    """What the task's function does, and what its return means."""
    first = (context_of(lease, alias),) if recipe.takes_context else ()
    with forks_end_here():
        result = recipe.call(*first, **args)
        if result is not None and iscoroutine(result):
            result = async_to_sync(_awaited)(result)
    return of_result(result, recipe)


def of_result(result: Any, recipe: Recipe) -> Outcome:
    """The outcome of a body that returned. Raises Discard for a result that can't be kept: no other attempt would help."""
    if recipe.keep_s is None:
        return COMPLETED
    try:
        return Completed(encode_value(result, path="result", limit=MAX_RESULT_BYTES), recipe.keep_s)
    except InvalidArguments as exc:
        raise Discard(f"its result can't be stored: {exc}") from None


def _tell(lease: Lease, alias: str, outcome: Outcome, exc: BaseException | None = None) -> None:
    """Send the signals of an attempt that did not complete, in the context of its job."""
    told = telling.of_end(lease, outcome, exc)
    if told:
        enter(lease, alias)
    for signal, arguments in told:
        _send(signal, lease, alias, **arguments)


def _send(signal: Signal, lease: Lease, alias: str, **more: Any) -> None:
    """Send a signal of a job; whatever a receiver does, the job's outcome stays what it is."""
    with suppress(Exception):
        signal.send_robust(JobContext, job=context_of(lease, alias), **more)


async def _awaited(result: Any) -> Any:
    return await result


def _trimmed(exc: BaseException) -> BaseException:
    """The exception without the frames of this package's own running of jobs at the top of its traceback."""
    top: TracebackType | None = exc.__traceback__
    while top is not None and top.tb_frame.f_code.co_filename.startswith(_HERE):
        top = top.tb_next
    return BaseException.with_traceback(exc, top) if top is not None else exc  # its class may have another idea of that
