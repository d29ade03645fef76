"""Who this worker is: an id that the database gives at each registration, with the host and process id as mere labels.

Two containers that share a host name and run as process 1 are two workers, as is a process before and after a fork.
"""

from __future__ import annotations

import os
import socket
import threading
from uuid import UUID

from django_stampeded.conf import settings


def node_name() -> str:
    """The name of this machine on record: the setting NODE_NAME, or else the host's."""
    return settings.NODE_NAME or socket.gethostname() or "unknown"


class Identity:
    """The registration in force, None before the first one.

    The heartbeat thread sets it; the others read it, or wait for it.
    """

    def __init__(self) -> None:
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
        self._id = worker_id
        (self._known.clear if worker_id is None else self._known.set)()

    def wait(self, timeout: float) -> UUID | None:
        """The id, waiting for a registration up to `timeout` seconds."""
        self._known.wait(timeout)
        return self._id
