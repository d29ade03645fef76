"""Shared memory in which a worker process says which jobs it has started, for its parent to read once it is dead.

A process that is killed can't say what it was doing, so it says so beforehand: a record for each job from right before
its body starts until its outcome is in the database. A record is the job's id and one byte of how the body ended, if it
did. Writing one is a copy of 17 bytes, well below a microsecond; no lock, no system call.

Owns the layout and nothing else: who writes is worker/, what is made of it after a death is supervisor/'s.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections import deque
from time import monotonic
from uuid import UUID

from django_stampeded.states import FailureKind

STARTED = 1
COMPLETED = 2
PUT_OFF = 3
_FAILED = 16
_KINDS = tuple(FailureKind)

SLOTS = 16_384
"""More than a worker can hold: its threads, what they run ahead of, and the outcomes that may wait for the database."""
MOST_IDS = 8
"""Registrations remembered; a worker has one more for each time that it was taken for dead and came back."""

_RECORD = struct.Struct("16sB15x")
_WRITE = struct.Struct("16sB").pack_into
_ENDED, _LEFT, _COUNT, _TICKED, _IDS, _FIRST = 0, 1, 2, 8, 16, 256
_TICK = struct.Struct("d")
_SIZE = _FIRST + SLOTS * _RECORD.size
_FREE = bytes(17)


def failed_as(kind: FailureKind) -> int:
    """The code of a body that failed so."""
    return _FAILED + _KINDS.index(kind)


def kind_of(code: int) -> FailureKind | None:
    """The kind of failure that a code stands for, None for the other codes."""
    return _KINDS[code - _FAILED] if _FAILED <= code < _FAILED + len(_KINDS) else None


class Board:
    """The memory shared by one worker process and its parent. `fd` is its file, which the child inherits.

    Example: `board = Board.create(); child = Board(board.fd)`
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, _SIZE)
        self._free = deque(range(_FIRST, _SIZE, _RECORD.size))

    @classmethod
    def create(cls) -> Board:
        """A blank one. Raises OSError where there is no memory or no room for a temporary file."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("stampeded")
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, _SIZE)
        return cls(fd)

    def close(self) -> None:
        """Let go of the memory. The other side keeps its own."""
        self._memory.close()
        os.close(self.fd)

    # What the worker says.

    def start(self, job_id: UUID) -> int:
        """The body of this job is about to start. Returns its record; -1 where none is free, and its death goes unseen."""
        try:
            record = self._free.pop()
        except IndexError:
            return -1
        _WRITE(self._memory, record, job_id.bytes, STARTED)
        return record

    def end(self, record: int, code: int) -> None:
        """The body ended as `code` says, and that is not in the database yet."""
        self._memory[record + 16] = code

    def free(self, record: int) -> None:
        """How the job ended is in the database."""
        self._memory[record : record + 17] = _FREE
        self._free.append(record)

    def register(self, worker_id: UUID) -> None:
        """Jobs are claimed under this id from now on."""
        memory = self._memory
        count = memory[_COUNT]
        place = _IDS + 16 * (count % MOST_IDS)
        memory[place : place + 16] = worker_id.bytes
        memory[_COUNT] = count + 1 if count < 255 else 255 - 255 % MOST_IDS
        memory[_LEFT] = 0

    def tick(self) -> None:
        """The heartbeat's thread gets its turn now, whatever the database does."""
        _TICK.pack_into(self._memory, _TICKED, monotonic())

    def leave(self) -> None:
        """Everything is handed back and the registration taken off the list."""
        self._memory[_LEFT] = 1

    def end_orderly(self) -> None:
        """The process ends because it wants to."""
        self._memory[_ENDED] = 1

    # What its parent reads.

    @property
    def ended_orderly(self) -> bool:
        """Whether the process ended because it wanted to."""
        return bool(self._memory[_ENDED])

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left in the database that would have to be dealt with."""
        return bool(self._memory[_LEFT]) or not self._memory[_COUNT]

    @property
    def last_tick(self) -> float | None:
        """When the heartbeat's thread last had its turn, in the monotonic seconds that all processes share; None: never."""
        return _TICK.unpack_from(self._memory, _TICKED)[0] or None

    @property
    def worker_id(self) -> UUID | None:
        """The id under which the process claims now."""
        count = self._memory[_COUNT]
        place = _IDS + 16 * ((count - 1) % MOST_IDS)
        return UUID(bytes=self._memory[place : place + 16]) if count and not self._memory[_LEFT] else None

    @property
    def worker_ids(self) -> list[UUID]:
        """The ids under which the process claimed."""
        memory = self._memory
        places = range(_IDS, _IDS + 16 * min(memory[_COUNT], MOST_IDS), 16)
        return [UUID(bytes=memory[place : place + 16]) for place in places]

    def records(self) -> dict[UUID, int]:
        """The jobs started whose end is not in the database as far as the process knew, with their codes."""
        every = _RECORD.iter_unpack(self._memory[_FIRST:_SIZE])
        return {UUID(bytes=job_id): code for job_id, code in every if code}
