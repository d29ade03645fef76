"""The thread that hears of new jobs: LISTEN on a connection of its own, in autocommit, never in a transaction.

LISTEN needs a session. Behind a pooler that lends a server connection for each transaction it is accepted and nothing
ever arrives; so the listener has itself notified first, and when that stays out says "polling only" and lets go. It
also does so now and then later on, which finds a connection that died without a word. After each (re)start the claimer
looks once by itself, for what was announced while nobody listened.

That first notification comes from another connection: sent on the same one, it would come back in the same breath, from
the very server connection that the pooler lent for it. And it comes on a channel of its own, so that no session that
others will be lent is left listening to everything.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from uuid import uuid4

import psycopg

from django_stampeded import notify
from django_stampeded.process.link import Connection, Link
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from django_stampeded.worker import messages
from django_stampeded.worker.options import WorkerOptions

PROBE_S = 2.0
"""How long a notification to ourselves may take before we call the connection deaf."""
PROBE_EVERY_S = 60.0
TRY_AGAIN_S = 300.0
"""How long to be content with polling before finding out again."""


class Listener(Loop):
    """Passes the queues named in notifications to `heard`, and None when anything may have been missed.

    `say` is told the state: `listening` or `polling only`.
    """

    def __init__(
        self,
        options: WorkerOptions,
        outage: Outage,
        heard: Callable[[str | None], None],
        say: Callable[[str], None],
    ) -> None:
        super().__init__("listener", options.listen_alias or options.alias, outage)
        self.options = options
        self.heard = heard
        self.say = say
        self.status = "starting"
        self._probe = f"stampeded_probe_{uuid4().hex}"
        self._sender = Link(self.link.alias, "listener probe")
        self._channel = ""
        self._probed = 0.0

    def cycle(self) -> None:
        """Listen until something is to be done about it."""
        connection = self.link.connection()
        if self.status != "listening":
            self._begin(connection)
            return
        self._hear(connection, PROBE_EVERY_S)
        if not self.stopping and monotonic() - self._probed >= PROBE_EVERY_S and not self._arrives(connection):
            self._deaf()

    def _begin(self, connection: Connection) -> None:
        cur = connection.cursor()
        notify.listen(cur, self._probe)
        if not self._arrives(connection):
            self._deaf()
            return
        self._channel = notify.channel(cur)
        notify.listen(cur, self._channel)
        self._is("listening")
        messages.listening(self._channel)
        self.heard(None)

    def _arrives(self, connection: Connection) -> bool:
        """Whether a notification to ourselves comes back."""
        self._send_probe(connection)
        self._probed = monotonic()
        while (left := self._probed + PROBE_S - monotonic()) > 0 and not self.stopping:
            if self._hear(connection, left):
                return True
        return self.stopping

    def _send_probe(self, connection: Connection) -> None:
        try:
            notify.probe(self._sender.cursor(), self._probe, "")
        except psycopg.OperationalError:  # no connection left for that: a weaker test is better than none
            notify.probe(connection.cursor(), self._probe, "")
        finally:
            self._sender.drop()

    def _hear(self, connection: Connection, seconds: float) -> bool:
        """Pass on what arrives together, waiting up to `seconds` for it. Whether the probe was among it."""
        probed = False
        for note in connection.notifies(timeout=seconds, stop_after=1):
            if note.channel == self._probe:
                probed = True
            else:
                self.heard(note.payload)
        return probed

    def _deaf(self) -> None:
        """Nothing arrives on this connection: leave it, and try again much later."""
        self.link.drop()
        if self.status != "polling only":
            messages.polling_only(self.options.poll_interval)
        self._is("polling only")
        self.pause(TRY_AGAIN_S)

    def _is(self, status: str) -> None:
        self.status = status
        self.say(status)

    def broken(self) -> None:
        """Nobody hears for us until the next start."""
        if self.status == "listening":
            self._is("polling only")
            self.status = "starting"

    def stop(self) -> None:
        """Ask the loop to end; it may be waiting for a notification, so its connection is shut."""
        super().stop()
        self.link.shut()
