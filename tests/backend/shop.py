"""Tasks of Django's own kind. Imported by the fixture that configures the backends, as decorators ask for those."""

from __future__ import annotations

from typing import Any

from django_stampeded import Discard
from django_stampeded.compat import TaskContext

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task(backend="stampeded")
def add(x: int, y: int = 1, *more: int, **others: int) -> int:
    """The sum of all there is."""
    return x + y + sum(more) + sum(others.values())


@task(backend="stampeded", priority=5, queue_name="mail")
def important() -> str:
    """A word."""
    return "done"


@task(backend="stampeded")
async def async_add(x: int, y: int) -> int:
    """The sum, asynchronously."""
    return x + y


@task(backend="stampeded", takes_context=True)
def told(context: TaskContext, /, word: str) -> list[Any]:
    """What the context says."""
    result = context.task_result
    return [context.attempt, result.id, str(result.status), result.args, word]


@task(backend="stampeded")
def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


@task(backend="stampeded")
def give_up() -> None:
    """Ask for no further attempt."""
    raise Discard("no use")


@task(backend="whole")
def enqueue_and_end(fail: bool) -> str:
    """Enqueue another one, then end."""
    important.enqueue()
    if fail:
        raise ValueError("after enqueueing")
    return "enqueued"


@task(backend="strict")
def refuse() -> None:
    """Raise what the backend finds no use in trying again."""
    raise ValueError("no such order")


@task(backend="stampeded")
def give_back_a_set() -> set[int]:
    """What JSON can't hold."""
    return {1}
