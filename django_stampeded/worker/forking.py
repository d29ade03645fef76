"""What becomes of a process that a job forked, when it comes to the end of the job's body: it ends, as a program would.

It must not get any further. It holds copies of the worker's connections and of the jobs that wait for a thread: it would commit
on the former and run the latter beside the worker. `os._exit` leaves both alone.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from types import TracebackType


class forks_end_here:
    """Around a job's body. The process that entered it leaves it as usual, any other one ends there.

    Its exit status is that of a program: 0, that of a SystemExit, or 1 for another exception, which is printed.
    """

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        if os.getpid() != self._pid:
            _end(exc)


def _end(exc: BaseException | None) -> None:
    status = 0 if exc is None else 1
    with suppress(BaseException):  # nothing may keep it from ending
        if isinstance(exc, SystemExit) and (exc.code is None or isinstance(exc.code, int)):
            status = (exc.code or 0) & 0xFF
        elif exc is not None:
            traceback.print_exception(exc)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)
