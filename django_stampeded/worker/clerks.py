"""The threads that speak to the queue for one desk: heartbeat, claimer, acker and listener, made for each other.

Owns their wiring, and the order in which they begin and end. Who takes the leases off the desk, the job threads of a worker
or the callers of a Puller, is theirs: crew.py's and pulling's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.worker import messages
from django_stampeded.worker.acker import Acker
from django_stampeded.worker.claimer import Claimer
from django_stampeded.worker.guards import Guards
from django_stampeded.worker.heartbeat import Heartbeat
from django_stampeded.worker.identity import Identity
from django_stampeded.worker.lease import Desk, Lease
from django_stampeded.worker.listener import Listener
from django_stampeded.worker.options import WorkerOptions

LEAVE_S = 1.5
"""How long each step of leaving may take when there is nothing left to wait for but a database that is slow."""
AWAY_S = 0.02
"""The same while the database is known to be away."""


class Clerks:
    """One registered worker's dealings with the queue, for the leases of `desk`.

    Args:
        about: what else is on record about it, beside what the heartbeat says by itself.
        tell: called with each running lease that was cancelled elsewhere or is lost.
        ended: called when it ends by itself, drained or refused by the database.
    """

    def __init__(
        self,
        options: WorkerOptions,
        outage: Outage,
        desk: Desk,
        identity: Identity,
        about: Mapping[str, Any],
        tell: Callable[[Lease], object],
        ended: Callable[[], None],
    ) -> None:
        self.options = options
        self.outage = outage
        self.identity = identity
        self.heartbeat = Heartbeat(options, outage, desk, identity, about, tell, ended)
        self.guards = Guards(options.alias)
        self.claimer = Claimer(options, outage, desk, identity, self.heartbeat.hurry, ended, self.guards)
        self.acker = Acker(options.alias, outage, desk, self.claimer.look_soon, self.guards)
        self.listener = Listener(options, outage, self.claimer.heard, self._say)

    @property
    def loops(self) -> list[Loop]:
        """The threads."""
        return [self.heartbeat, self.claimer, self.acker, self.listener]

    def start(self) -> None:
        """Start them all, but the listener where there is nothing to listen for."""
        listens = self.options.listen and not self.options.drain
        if not listens:
            self._say("off")
        for loop in self.loops:
            if listens or loop is not self.listener:
                loop.start()

    def leave(self, meanwhile: Callable[[], object] = lambda: None) -> int:
        """End them, when claiming has been stopped: the acker first, and the heartbeat, which vouches for what is held,
        last. `meanwhile` is what takes its time beside that. How many outcomes could not be recorded."""
        self.acker.stop()
        self.acker.join(LEAVE_S)
        unrecorded = self.acker.unrecorded
        if unrecorded:
            messages.unrecorded(unrecorded)
        self.heartbeat.leave_row = unrecorded > 0
        self.heartbeat.stop()
        meanwhile()
        for loop in self.loops:
            if loop.is_alive():
                loop.join(LEAVE_S if not self.outage.ongoing else AWAY_S)
        messages.stopped(self.identity.hostname)
        return unrecorded

    def stop_claiming(self) -> None:
        """Claim no more from now on. A claim in flight may still come back; the claimer then releases what it brings."""
        self.listener.stop()
        self.claimer.stop()

    def _say(self, status: str) -> None:
        self.claimer.listening = status == "listening"
        self.heartbeat.say(status)
