"""One child process as its parent sees it: started by exec, tied to the parent by a line and a board.

Owns starting it, talking to it and reading its end. When that is done is parent.py's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from django_stampeded.process.board import Board
from django_stampeded.process.line import MARK


class ChildProcess:
    """A running child.

    Args:
        command: what to execute.
        number: which one it is, from 1.

    Raises OSError when it can't be started.
    """

    def __init__(self, command: Sequence[str], number: int) -> None:
        self.number = number
        self.is_ready = False
        self.started_at = monotonic()
        self.board = Board.create()
        self.line, theirs = socket.socketpair()
        try:
            mark = json.dumps({"number": number, "board": self.board.fd, "line": theirs.fileno()})
            # A process group of its own: Ctrl-C is for the parent, which passes it on, and a kill meets what it started too.
            self._popen = subprocess.Popen(
                command,
                env={**os.environ, MARK: mark},
                pass_fds=(self.board.fd, theirs.fileno()),
                process_group=0,
                stdin=subprocess.DEVNULL,
            )
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
        self.line.setblocking(False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def say(self, word: bytes) -> None:
        """Tell it something, if it still hears."""
        with suppress(OSError):
            self.line.send(word)

    def heard(self) -> bytes:
        """What it has said since the last time, a byte each."""
        try:
            return self.line.recv(64)
        except OSError:
            return b""

    def is_silent(self, seconds: float) -> bool:
        """Whether its heartbeat's thread has had no turn for so long though it runs: code in there keeps the others out.

        One that was stopped (SIGSTOP) does not run, and one whose worker has left the list has no heartbeat.
        """
        tick = self.board.last_tick if self.board.worker_id is not None else None
        return tick is not None and monotonic() - tick > seconds and not self._is_stopped()

    def _is_stopped(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t", b"Z", b"X")
        except OSError:
            return False  # a system that doesn't say

    def kill(self) -> None:
        """End it and everything it started, at once."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def ended(self, code: int) -> None:
        """Its status has been collected."""
        self._popen.returncode = code

    def close(self) -> None:
        """Let go of what it was tied by."""
        self.line.close()
        self.board.close()


def how_it_ended(code: int) -> str:
    """A process's end in words; `code` is negative for a signal.

    Example: `how_it_ended(-11) == "was ended by signal 11 (SIGSEGV)"`
    """
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was ended by signal {-code} ({name}){hint}"


def exit_status(code: int) -> int:
    """A process's end as a shell has it: 128 + the number of the signal.

    Example: `exit_status(-11) == 139`
    """
    return code if code >= 0 else 128 - code
