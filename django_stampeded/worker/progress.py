"""What jobs say of their progress, on its way to the database: noted by the job's thread, written by another one.

A job may say it a million times, in the middle of a transaction of its own. So saying it only replaces what its lease has
noted, and about once a second the heartbeat writes what changed, for all jobs in one statement on its own connection. When to
write is decided here, fed with the time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django_stampeded.encoding import safe_text
from django_stampeded.exceptions import InvalidArguments
from django_stampeded.progress_functions import Told, tell_progress

if TYPE_CHECKING:
    from django_stampeded.worker.lease import Lease

EVERY_S = 1.0
"""The progress of a job is written about so often, and once more after its last word."""
LONGEST_MESSAGE = 255
PERCENT = 100
_LARGEST = 2**63 - 1


class Progress(NamedTuple):
    """How far a job is: `done` of `total` units (None: nobody knows how many), and what it is at."""

    done: int
    total: int | None = None
    message: str = ""


def progress(done: float, total: float | str | None = None, message: str = "") -> Progress:
    """The progress that was told so; a text in second place makes the number a percentage.

    Raises InvalidArguments for what is no number of units. A message is cut to LONGEST_MESSAGE characters.

    Example: `progress(40, "page 4 of 10") == Progress(40, 100, "page 4 of 10")`
    """
    if isinstance(total, str):
        return progress(done, PERCENT, total)
    whole = None if total is None else _units("total", total)
    return Progress(_units("done", done), whole, safe_text(str(message), LONGEST_MESSAGE))


def _units(name: str, number: float) -> int:
    try:
        units = int(number)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArguments(f"progress: {name} must be a number of units.", argument=name) from None
    if not 0 <= units <= _LARGEST:
        raise InvalidArguments(f"progress: {name} must be a number of units from 0 to 2^63 - 1.", argument=name)
    return units


class Reports:
    """The leases whose jobs have said something that is not written yet. Jobs note, one other thread takes.

    Bounded by the leases that the process holds and the outcomes that wait to be recorded.
    """

    def __init__(self) -> None:
        self._changed: set[Lease] = set()
        self._taken = float("-inf")

    def note(self, lease: Lease) -> None:
        """The job of `lease` has said something new."""
        self._changed.add(lease)

    def take(self, now: float, last: bool = False) -> list[Lease]:
        """The leases whose progress to write at `now` (monotonic seconds): none sooner than EVERY_S after the last ones,
        unless these are the `last`."""
        if not self._changed or (now - self._taken < EVERY_S and not last):
            return []
        self._taken = now
        taken = list(self._changed)
        self._changed.difference_update(taken)  # before their progress is read: what is said from here on counts again
        return taken

    def put_back(self, leases: list[Lease]) -> None:
        """These could not be written."""
        self._changed.update(leases)


def write(cur: Any, leases: list[Lease]) -> int:
    """Write what the jobs of these leases said last, by a statement for each worker id; returns for how many that was done.

    Those that lost their lease are left out. Raises the driver's errors.
    """
    told: dict[UUID, list[Told]] = defaultdict(list)
    for lease in leases:
        if lease.progress is not None and not lease.lost:
            told[lease.worker_id].append(Told(lease.ack, *lease.progress))
    return sum(len(tell_progress(cur, worker_id, each)) for worker_id, each in told.items())
