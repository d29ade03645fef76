"""The wire between a worker process and its parent, and how a process finds out that it is such a child.

A socket pair that carries single bytes, inherited like the board. That it breaks tells the child that its parent is
gone. The parent's end is supervisor/'s.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from django_stampeded.process.board import Board

MARK = "STAMPEDED_CHILD"
"""The environment variable that tells a process what it is and which files it inherited. It is gone once it is read."""

RECYCLED = 86
"""The exit status of a child that wants to be replaced, as its parent knows it."""

STOPPED = 87
"""The exit status of a child that an operator asked to stop: it is not to be replaced."""

# What a child says: it is registered; it wants to be replaced; the database won't do.
READY, LEAVING, REFUSED = b"r", b"l", b"x"
# What its parent says: end in order; end at once; somebody else has taken over.
STOP, AT_ONCE, RELIEVED = b"s", b"q", b"n"


@dataclass(frozen=True, slots=True)
class Child:
    """What a child process has from its parent: its number (1 is the one with maintenance), the board, the line."""

    number: int
    board: Board
    line: Line

    @classmethod
    def adopt(cls) -> Child | None:
        """This process as the child of a supervisor, None when it is not one. What it starts itself is none either."""
        marked = os.environ.pop(MARK, None)
        if marked is None:
            return None
        given = json.loads(marked)
        for fd in (given["board"], given["line"]):
            os.set_inheritable(fd, False)
        return cls(given["number"], Board(given["board"]), Line(given["line"]))


class Line:
    """The child's end of the wire."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def say(self, word: bytes) -> None:
        """Tell the parent, if it is still there."""
        with suppress(OSError):  # that it is gone is told by listen
            self._socket.send(word)

    def listen(self, heard: Callable[[bytes], object]) -> None:
        """Pass on what the parent says from now on, in a thread of its own. A parent that is gone has said STOP."""
        threading.Thread(target=self._listen, args=(heard,), name="stampeded-line", daemon=True).start()

    def _listen(self, heard: Callable[[bytes], object]) -> None:
        while True:
            try:
                word = self._socket.recv(1)
            except OSError:
                word = b""
            heard(word or STOP)
            if not word:
                return
