"""The process that owns one local PostgreSQL server and ends it when nobody uses it any more.

Run as a script by postgres.LocalPostgres, never imported: it must not depend on a package
that the interpreter's user alone may read. Users of the server hold a shared lock on a file; the
kernel gives it back whatever killed them, and that is the sign to stop.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any


def main() -> None:
    """Start the server described by the first argument (JSON), print its pid, stop it after its last user."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(order["log"], "ab") as log:
        server = subprocess.Popen(
            order["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=order["environment"],
            start_new_session=True,
            # An ignored signal stays ignored across exec; the server must be able to hear its own.
            preexec_fn=_default_signals,
            **order["drop"],
        )
    print(server.pid, flush=True)
    os.close(sys.stdout.fileno())
    reaped = threading.Thread(target=server.wait, daemon=True)
    reaped.start()
    with open(order["lock"], "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if reaped.is_alive():
            server.send_signal(signal.SIGINT)
            reaped.join()
        if order["temporary"]:
            shutil.rmtree(order["temporary"], ignore_errors=True)


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    main()
