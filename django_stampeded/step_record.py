"""The record of a job's steps in its checkpoint: its form, for the worker that writes it and the pages that show it.

Documented JSON that workers in other languages read and write too: {"stampeded_steps": {name: entry}, "state": the plain
checkpoint}. An entry has "done": true once the step is finished, its "result" if it has one, its "cursor" if it has one;
whatever else it has is kept. Pure.
"""

from __future__ import annotations

from typing import Any

STEPS = "stampeded_steps"
STATE = "state"


def entries(checkpoint: Any) -> dict[str, Any]:
    """The entries of a job's steps by name, of its checkpoint as it is stored."""
    found = checkpoint.get(STEPS) if isinstance(checkpoint, dict) else None
    return found if isinstance(found, dict) else {}


def has_steps(checkpoint: Any) -> bool:
    """Whether a stored checkpoint is a record of steps."""
    return isinstance(checkpoint, dict) and isinstance(checkpoint.get(STEPS), dict)


def state_of(checkpoint: Any) -> Any:
    """The job's plain checkpoint, without its steps."""
    return checkpoint.get(STATE) if has_steps(checkpoint) else checkpoint


def with_state(checkpoint: Any, state: Any) -> Any:
    """A stored checkpoint with another plain one in it: its steps stay."""
    return {**checkpoint, STATE: state} if has_steps(checkpoint) else state
