"""Which queues a worker takes jobs from, as written on the command line: `mail:5,default`, `*`, all except some.

Pure. What to claim next from the queues selected is decided in claims.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

EVERY = "*"
_BOUND = re.compile(r"\A(?P<queue>.+):(?P<bound>-?\d+)\Z", re.DOTALL)
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Selection:
    """The queues of one worker.

    Args:
        queues: their names in the order given, or None for every queue that has work.
        bounds: how many jobs of a queue this process holds at a time at most, for those that have such a bound.
        excluded: queues never touched, for the worker of every queue.
    """

    queues: tuple[str, ...] | None = None
    bounds: Mapping[str, int] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()

    def includes(self, queue: str) -> bool:
        """Whether jobs of this queue are for this worker."""
        return queue not in self.excluded if self.queues is None else queue in self.queues

    def among(self, queues: Iterable[str]) -> list[str]:
        """Those of `queues` that are for this worker, in their order."""
        return [queue for queue in queues if self.includes(queue)]

    @property
    def label(self) -> tuple[str, ...]:
        """The queues as shown with the worker: names, or `*`."""
        return (EVERY,) if self.queues is None else self.queues

    def __str__(self) -> str:
        shown = [f"{q}:{self.bounds[q]}" if q in self.bounds else q for q in self.queues or ()]
        shown = shown or [EVERY, *(f"{q}:{n}" for q, n in self.bounds.items())]
        left_out = f" except {', '.join(sorted(self.excluded))}" if self.excluded else ""
        return ", ".join(shown) + left_out


def select(given: Sequence[str] = (), excluded: Sequence[str] = ()) -> Selection:
    """Read the values of --queue and --except-queues, each one name or several with commas between them.

    A number after a colon, `mail:5`, bounds the jobs of that queue in this process; `*` stands for every queue, and
    stands beside names only where these have a bound. Nothing given means every queue.
    Raises ValueError with a sentence for the user.

    Example: `select(["mail:5,default"]).bounds == {"mail": 5}`
    """
    names: list[str] = []
    bounds: dict[str, int] = {}
    for entry in _entries(given, "--queue"):
        name, bound = _parted(entry)
        if bound is not None:
            bounds[name] = bound
        if name not in names:
            names.append(name)
    without = frozenset(_named(entry, "--except-queues") for entry in _entries(excluded, "--except-queues"))
    if not names or EVERY in names:
        return _every(names, bounds, without)
    left = tuple(name for name in names if name not in without)
    if not left:
        raise ValueError("--except-queues leaves none of the queues of --queue: name at least one other queue.")
    return Selection(left, bounds, without)


def _every(names: Sequence[str], bounds: dict[str, int], without: frozenset[str]) -> Selection:
    if EVERY in bounds:
        raise ValueError("--queue '*' stands for many queues and takes no bound: use --threads instead.")
    idle = [name for name in names if name != EVERY and name not in bounds]
    if idle:
        raise ValueError(f"--queue '*' already includes {idle[0]!r}: name one or the other.")
    return Selection(None, bounds, without)


def _entries(values: Sequence[str], flag: str) -> list[str]:
    entries = [entry.strip() for value in values for entry in value.split(",")]
    if any(not entry for entry in entries):
        raise ValueError(f"{flag} has an empty name: write names with one comma between them.")
    return entries


def _parted(entry: str) -> tuple[str, int | None]:
    found = _BOUND.match(entry)
    if found is None:
        return _named(entry, "--queue"), None
    bound = int(found["bound"])
    if bound < 1:
        raise ValueError(f"--queue {entry!r} allows no job at all: give a bound of 1 or more.")
    return _named(found["queue"], "--queue"), bound


def _named(name: str, flag: str) -> str:
    if len(name) > _LONGEST or "\x00" in name:
        raise ValueError(f"{flag} has a name of more than {_LONGEST} characters: queues have shorter ones.")
    return name
