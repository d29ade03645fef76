"""Which tasks this process knows, by name and by alias, and how an app's tasks.py is found.

Owns the names. What a task is belongs to tasks.py; the faults noted here while importing are reported by checks.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from django_stampeded.encoding import safe_text
from django_stampeded.exceptions import DuplicateTask, UnknownTask

if TYPE_CHECKING:
    from django_stampeded.tasks import Task

logger = logging.getLogger("django_stampeded.registry")

_tasks: dict[str, Task[Any, Any]] = {}
_names: dict[str, str] = {}  # every name and alias to the task's own name


class BrokenModule(NamedTuple):
    """A tasks module that did not import, so that this process knows none or only some of its tasks."""

    module: str
    error: Exception


broken: list[BrokenModule] = []
"""The tasks modules that `autodiscover` could not import."""


def register(task: Task[Any, Any]) -> None:
    """Makes a task known under its name and aliases. Raises DuplicateTask when another function has one of them."""
    for name in (task.name, *task.aliases):
        holder = _tasks.get(_names.get(name, ""))
        # A module that is imported again (reload, a test) replaces its own tasks.
        if holder is not None and _origin(holder) != _origin(task):
            raise DuplicateTask(
                f"Two tasks are called {name!r}, {_origin(holder)} and {_origin(task)}: "
                "give one of them another name with @task(name=...)."
            )
    _tasks[task.name] = task
    for name in (task.name, *task.aliases):
        _names[name] = task.name


def get(name: str) -> Task[Any, Any] | None:
    """The task registered under a name or alias, None for one that this process does not know."""
    own_name = _names.get(name)
    return None if own_name is None else _tasks[own_name]


def find(name: str) -> Task[Any, Any]:
    """The task registered under a name or alias. Raises UnknownTask, with advice, when there is none.

    Example: `find("shop.tasks.import_csv")`
    """
    task = get(name)
    if task is None:
        close = get_close_matches(name, _names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "deploy its code here, or give its new name an alias."
        raise UnknownTask(f"No task {safe_text(name, 255)!r} is registered in this process: {hint}")
    return task


def names() -> Iterator[str]:
    """Every name that jobs may call a task of this process by, aliases among them.

    Example: `"shop.tasks.import_csv" in names()`
    """
    return (name for name, own in _names.items() if _tasks[own].func is not None)


def every() -> Iterator[Task[Any, Any]]:
    """All registered tasks, by name."""
    yield from (_tasks[name] for name in sorted(_tasks))


def autodiscover() -> None:
    """Imports the module `tasks` of every installed app. One that fails is logged and noted, and stops no other."""
    broken.clear()
    for config in apps.get_app_configs():
        if config.module is None or not module_has_submodule(config.module, "tasks"):
            continue
        module = f"{config.name}.tasks"
        try:
            import_module(module)
        except Exception as exc:  # whatever a user's module raises, a SyntaxError included
            broken.append(BrokenModule(module, exc))
            logger.exception(
                "The tasks of %s are unknown to this process, as %s did not import: "
                "mend it and restart; until then their jobs are put off.",
                config.label,
                module,
            )


def _origin(task: Task[Any, Any]) -> str:
    func: Any = task.func
    return f"{getattr(func, '__module__', None)}.{getattr(func, '__qualname__', None)}"
