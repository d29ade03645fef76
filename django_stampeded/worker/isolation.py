"""Running a job in a process of its own, which can be killed whatever it does: for `@task(isolation="process")`.

Owns both ends. In the worker, a job thread hands its job to a process of the pool and waits; when its time is up, or the
job is cancelled or lost, that process is killed. One that crashes costs only its job, as worker_exited. The processes are
started by exec, run one job at a time, are used again while all goes well, and end when the worker does.

The two talk over a socket, in JSON, a line a message. What a job prints stays what it is.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from django_stampeded.functions import ClaimedJob
from django_stampeded.states import FailureKind
from django_stampeded.worker.failure_text import describe
from django_stampeded.worker.interrupt import Guard
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import (
    RECORDED,
    RELEASED,
    Completed,
    Failed,
    Outcome,
    Recorded,
    Snoozed,
    of_bad_arguments,
    of_exception,
)
from django_stampeded.worker.progress import EVERY_S, Progress, Reports
from django_stampeded.worker.raw_json import loaded
from django_stampeded.worker.retry_policy import RetryPolicy

_MAIN = "import json, sys; sys.path[:] = json.loads(sys.argv[3]); from django_stampeded.worker.isolation import main; main()"
_READY = {"ready": True}


class _Lines:
    """JSON messages over a socket."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = end.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        self.send_text(json.dumps(message))

    def send_text(self, text: str) -> None:
        with self._sending:
            self._socket.sendall(text.encode() + b"\n")

    def receive(self) -> Any:
        """The next message, None when the other side is gone."""
        try:
            line = self._reader.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


class IsolatedProcess:
    """A process that runs one job after the other. Raises OSError when it can't be started."""

    def __init__(self, alias: str) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno()), alias, json.dumps(sys.path)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": _settings_module()},
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._lines = _Lines(ours)
        self.is_ready = False

    def wait_ready(self) -> bool:
        """Wait until it can run jobs. False when it ended instead."""
        self.is_ready = self.is_ready or self._lines.receive() == _READY
        return self.is_ready

    def run(self, lease: Lease, request: str) -> Any:
        """The outcome of the job of `lease` as a message, None when the process ended before it was there."""
        try:
            self._lines.send_text(request)
        except OSError:
            return None
        while (answer := self._lines.receive()) is not None and "progress" in answer:
            if answer["job"] == str(lease.job.id):  # else a thread that an earlier job has left behind reports
                lease.note(Progress(*answer["progress"]))
        return answer

    def kill(self) -> None:
        """End it, whatever it does."""
        self._popen.kill()

    def end(self) -> int:
        """See that it has ended; its exit status as a shell has it."""
        self._lines.close()
        try:
            code = self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        return code if code >= 0 else 128 - code


class Isolation:
    """The pool of a worker's isolated processes, for jobs of the database of `alias`. Starts them as they are needed."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._idle: deque[IsolatedProcess] = deque()
        self._all: set[IsolatedProcess] = set()
        self._closed = False

    def run(self, lease: Lease, timeout: float | None, guard: Guard, policy: RetryPolicy) -> Outcome:
        """Run the job of `lease` in a process of its own; returns what to record, by the policy of its task. Raises nothing."""
        try:
            request = _request(lease)
        except Exception as exc:  # JSON that Python can't read
            return of_bad_arguments(exc)
        try:
            process = self._take()
        except OSError as exc:
            return Failed(FailureKind.RAISED, describe(exc), policy.drawn_ms(lease.job.attempt))
        answer = None
        if process.wait_ready():
            lease.started_at = monotonic()
            guard.open(lease, timeout, policy, process.kill)
            try:
                answer = process.run(lease, request)
            finally:
                told = guard.reason if guard.sent else None
                guard.close()
            if answer is not None and told is None:
                self._idle.append(process)
                return outcome_of(answer)
        else:
            told = None
        self._all.discard(process)
        status = process.end()
        if self._closed:
            return RELEASED
        if told is not None:
            return of_exception(told("its process was killed"), lease.job.attempt, policy)
        return Failed(FailureKind.WORKER_EXITED, f"The process of this job {_how(status)}.", exit_status=status)

    def _take(self) -> IsolatedProcess:
        try:
            return self._idle.pop()
        except IndexError:
            process = IsolatedProcess(self.alias)
            self._all.add(process)
            if self._closed:
                process.kill()
            return process

    def close(self) -> None:
        """The worker ends: kill them all."""
        self._closed = True
        for process in list(self._all):
            process.kill()
        for process in list(self._idle):
            process.end()


def outcome_of(answer: dict[str, Any]) -> Outcome:
    """The outcome that a message stands for."""
    match answer:
        case {"kind": kind, "error": error, "delay_ms": delay_ms, "by_wish": by_wish}:
            return Failed(FailureKind(kind), error, delay_ms, by_wish=by_wish)
        case {"snoozed": delay_ms}:
            return Snoozed(delay_ms)
        case {"completed": True, "result": result, "keep_s": keep_s}:
            return Completed(result, keep_s)
        case {"recorded": True}:
            return RECORDED
    return RELEASED


def message_of(outcome: Outcome) -> dict[str, Any]:
    """The message that stands for an outcome."""
    match outcome:
        case Completed(result, keep_s):
            return {"completed": True, "result": result, "keep_s": keep_s}
        case Snoozed(delay_ms):
            return {"snoozed": delay_ms}
        case Failed(kind, error, delay_ms):
            return {"kind": kind.value, "error": error, "delay_ms": delay_ms, "by_wish": outcome.by_wish}
        case Recorded():
            return {"recorded": True}
    return {"released": True}


def _how(status: int) -> str:
    if status <= 128:
        return f"exited with status {status}"
    try:
        return f"was ended by signal {status - 128} ({signal.Signals(status - 128).name})"
    except ValueError:
        return f"exited with status {status}"


def _settings_module() -> str:
    from django.conf import settings

    return str(getattr(settings, "SETTINGS_MODULE", None) or os.environ.get("DJANGO_SETTINGS_MODULE", ""))


def _request(lease: Lease) -> str:
    """The message that asks to run the job of `lease`. Raises ValueError or RecursionError for JSON that Python can't read."""
    job = lease.job._asdict()
    return json.dumps({"worker_id": str(lease.worker_id), "job": {name: _plain(loaded(value)) for name, value in job.items()}})


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _lease(request: dict[str, Any]) -> Lease:
    job = request["job"]
    for name in ("scheduled_at", "inserted_at"):
        job[name] = datetime.fromisoformat(job[name])
    for name in ("id", "batch_id"):
        job[name] = None if job[name] is None else UUID(job[name])
    return Lease(ClaimedJob(**job), UUID(request["worker_id"]), monotonic())


class _Reports(Reports):
    """What the job of an isolated process says of its progress, on its way to the worker.

    The first time starts a thread that sends the latest about once a second, for the job may say nothing for an hour then.
    """

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines
        self._noted = threading.Event()
        self._passing_on = threading.Lock()
        self._sender: threading.Thread | None = None

    def note(self, lease: Lease) -> None:
        super().note(lease)
        if not self._noted.is_set():
            self._noted.set()
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_on, daemon=True)
                self._sender.start()

    def _send_on(self) -> None:
        with suppress(OSError):  # the worker is gone, and this process with it
            while self._noted.wait():
                self._noted.clear()
                self.pass_on()
                sleep(EVERY_S)

    def pass_on(self) -> None:
        """Send what is not sent yet. The lock lets nothing older arrive after it."""
        with self._passing_on:
            for lease in self.take(monotonic(), last=True):
                self._lines.send({"job": str(lease.job.id), "progress": lease.progress})


def main() -> None:
    """What an isolated process executes: run the jobs that come, until the worker is gone."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    alias = sys.argv[2]
    del sys.argv[1:]
    import django

    django.setup()
    from django_stampeded.worker import django_connections, messages
    from django_stampeded.worker.context import name_jobs_in_logs
    from django_stampeded.worker.execution import Recipes, perform

    name_jobs_in_logs()
    django_connections.keep_open()
    # A signal to every process is for the worker, which waits for this job as for any other. A handler instead of
    # SIG_IGN, for what the job executes would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    lines = _Lines(end)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines, requests), daemon=True).start()
    recipes = Recipes(alias)
    reports = _Reports(lines)
    lines.send(_READY)
    while True:
        lease = _lease(requests.get())
        lease.reports = reports
        if django_connections.in_use():
            django_connections.before_job()
        outcome = perform(lease, recipes, Guard())
        if django_connections.in_use():
            for left_open in django_connections.after_job():
                messages.left_open(lease, left_open)
        with suppress(OSError):
            reports.pass_on()
            lines.send(message_of(outcome))


def _read(lines: _Lines, requests: queue.SimpleQueue[Any]) -> None:
    """Pass on requests. A worker that is gone takes its isolated jobs along."""
    try:
        while (request := lines.receive()) is not None:
            requests.put(request)
    finally:
        os._exit(0)
