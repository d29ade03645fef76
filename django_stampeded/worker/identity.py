"""Who this worker is: an id that the database gives at each registration, with the host and process id as mere labels.

Two containers that share a host name and run as process 1 are two workers, as is a process before and after a fork.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from uuid import UUID

from django_stampeded.conf import settings
from django_stampeded.process.board import Board


def node_name() -> str:
    """The name of this machine on record: the setting NODE_NAME, or else the host's."""
    return settings.NODE_NAME or socket.gethostname() or "unknown"


class Identity:
    """The registration in force, None before the first one.

    The heartbeat thread sets it; the others read it, or wait for it. `known` is called when it does.
    """

    def __init__(self, board: Board | None = None, known: Callable[[], object] = lambda: None) -> None:
        self.board = board
        self.known = known
        self.hostname = node_name()
        self.pid = os.getpid()
        self._id: UUID | None = None
        self._known = threading.Event()

    @property
    def worker_id(self) -> UUID | None:
        """The id under which to claim now."""
        return self._id

    def take(self, worker_id: UUID | None) -> None:
        """Be this worker from now on; None: be nobody until the next registration."""
        if worker_id is not None and self.board is not None:
            self.board.register(worker_id)  # first, for whoever may claim under it must be known by it
        self._id = worker_id
        if worker_id is None:
            self._known.clear()
            return
        self._known.set()
        self.known()

    def tick(self) -> None:
        """The heartbeat's thread has its turn."""
        if self.board is not None:
            self.board.tick()

    def leave(self) -> None:
        """The registration is off the list, and nothing is left to answer for."""
        if self.board is not None:
            self.board.leave()

    def wait(self, timeout: float) -> UUID | None:
        """The id, waiting for a registration up to `timeout` seconds."""
        self._known.wait(timeout)
        return self._id
