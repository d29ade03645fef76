"""Starts the demo's worker and web server as processes of their own, and leaves none of them behind.

Each gets a process group of its own, so that Ctrl-C reaches the demo alone, which then stops them in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from django.conf import settings

STOP_SECONDS = 15.0
LAST_LINES = 5


class Child:
    """A management command running beside the demo, with its output in a log file.

    name: what it is called in messages.  arguments: the command and its options.  log: where its output goes.
    """

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._arguments = [sys.executable, "-m", "django", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=settings.BASE_DIR,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Asks the process to finish, waits, and ends whatever is left of its group."""
        if self._process is None:
            return
        try:
            if self.running:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(STOP_SECONDS)
        finally:  # also where an impatient second Ctrl-C interrupts the waiting
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def last_words(self) -> str:
        """The end of its output on one line, for the message that says it ended."""
        with suppress(OSError), self.log.open(encoding="utf-8", errors="replace") as output:
            return " / ".join(line.strip() for line in deque(output, LAST_LINES) if line.strip())
        return ""


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Lets SIGTERM and the closing of the terminal end the demo as Ctrl-C does, and SIGINT where a shell had it ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
