"""A progress bar: redrawn in place on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import shutil
from typing import TextIO

FILLED, EMPTY = "█", "░"
PLAIN_STEPS = 10
BAR_WIDTH = 32


class Progress:
    """Draws `done` of `total`; a total of None means that it isn't known yet."""

    def __init__(self, stream: TextIO, *, terminal: bool | None = None) -> None:
        self._stream = stream
        self._terminal = stream.isatty() if terminal is None else terminal
        self._step = -1
        self._drawn = False

    def update(self, done: int, total: int | None, note: str = "") -> None:
        if self._terminal:
            self._redraw(done, total, note)
        else:
            self._say(done, total, note)

    def finish(self) -> None:
        """Leaves the line of the bar, so that what is printed next starts on one of its own."""
        if self._drawn:
            self._stream.write("\n")
            self._stream.flush()
        self._drawn = False

    def _redraw(self, done: int, total: int | None, note: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = f"{bar(done, total, BAR_WIDTH)} {figures(done, total)}  {note}"[:width]
        self._stream.write(f"\r{line}\033[K")
        self._stream.flush()
        self._drawn = True

    def _say(self, done: int, total: int | None, note: str) -> None:
        step = done * PLAIN_STEPS // total if total else 0
        if step > self._step:
            self._step = step
            self._stream.write(f"{figures(done, total)}  {note}".rstrip() + "\n")
            self._stream.flush()


def bar(done: int, total: int | None, width: int) -> str:
    """A bar of `width` characters, full only when all is done."""
    filled = min(width, done * width // total) if total else 0
    return FILLED * filled + EMPTY * (width - filled)


def figures(done: int, total: int | None) -> str:
    return f"{done:,} of {total:,} jobs" if total else f"{done:,} jobs"
