"""`manage.py demo`: imports a file through a real worker, shows the progress, then serves the admin.

Owns the order of events and what is printed. Leaves the jobs to tasks.py, the processes and the judgement of
the result to the modules of demo/.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from argparse import ArgumentParser
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from django_stampeded.testing.postgres import free_port
from example_project.imports import csv_file
from example_project.imports.demo.outcome import Outcome, differences, observed, planned, short
from example_project.imports.demo.processes import Child, signals_as_interrupt
from example_project.imports.demo.progress import Progress
from example_project.imports.models import CsvImport
from example_project.imports.tasks import start_import

LOOK_EVERY = 0.25
STALLED_AFTER = 60.0
ANSWERS_AFTER = 60.0
MOST_ROWS = 10_000_000
USER = "demo"
PORT = 8000
INTERRUPTED = 130


class Command(BaseCommand):
    help = "Imports a CSV file with background jobs and a real worker, then serves the admin until Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--csv", metavar="PATH", help="the file to import (default: 3,376 airports)")
        parser.add_argument("--rows", metavar="N", help="import the first N rows only")
        parser.add_argument("--once", action="store_true", help="leave after the summary; 0 if all went as planned")
        parser.add_argument("--port", metavar="PORT", help=f"the admin's port (default: {PORT}, or a free one)")

    def handle(self, *args: Any, **options: Any) -> None:
        limit = whole_number("--rows", options["rows"], MOST_ROWS)
        port = whole_number("--port", options["port"], 65535)
        try:
            source = Path(options["csv"]).absolute() if options["csv"] else csv_file.airports()
            rows = csv_file.count(source, limit)
        except csv_file.CsvProblem as problem:
            raise CommandError(str(problem)) from None
        self.folder = Path(settings.BASE_DIR) / ".demo"
        with signals_as_interrupt(), ExitStack() as children:
            try:
                self._run(children, source, rows, limit, None if options["once"] else port or default_port())
            except KeyboardInterrupt:
                self.stdout.write("\nStopped.")
                sys.exit(INTERRUPTED)

    def _run(self, children: ExitStack, source: Path, rows: int, limit: int | None, port: int | None) -> None:
        """Imports the file and, where there is a port to serve it on, goes on with the admin."""
        call_command("migrate", verbosity=0)
        password = renewed_login()
        worker = children.enter_context(Child("worker", ["runstampeded"], self.folder / "worker.log"))
        started = start_import(source, self.folder, limit)
        self.stdout.write(f"Importing {rows:,} rows of {source.name}; the worker's log is {worker.log}")
        self._summarize(started, self._watch(started, worker))
        if port is not None:
            address = f"127.0.0.1:{port}"
            server = Child("web server", ["runserver", "--noreload", address], self.folder / "server.log")
            children.enter_context(server)
            await_answer(server, port)
            self._serve(address, password, [worker, server])

    def _watch(self, started: CsvImport, worker: Child) -> Outcome:
        """Draws the progress until every job is in a final state."""
        progress = Progress(sys.stdout)
        seen, total, changed_at = observed(started), None, time.monotonic()
        try:
            while not seen.finished:
                time.sleep(LOOK_EVERY)
                if total is None:
                    started.refresh_from_db()
                    total = planned(started).jobs if started.total is not None else None
                before, seen = seen, observed(started)
                if seen.ends != before.ends:
                    changed_at = time.monotonic()
                progress.update(seen.done, total, f"{seen.by_state.get('retryable', 0)} to be retried")
                if not worker.running:
                    raise CommandError(f"The worker ended early; see {worker.log}: {worker.last_words()}")
                if time.monotonic() - changed_at > STALLED_AFTER:
                    raise CommandError(f"No job moved for {STALLED_AFTER:.0f} seconds; see {worker.log}")
        finally:
            progress.finish()
        return seen

    def _summarize(self, started: CsvImport, found: Outcome) -> None:
        """Prints what came out; raises CommandError where it isn't what was planned."""
        started.refresh_from_db()
        lines = [f"  {short(task):<16} {state:<10} {n:>6,}" for (task, state), n in sorted(found.ends.items())]
        rate = found.done / found.seconds if found.seconds else 0.0
        states = ", ".join(f"{n:,} {state}" for state, n in sorted(found.by_state.items()))
        lines += [
            "",
            f"{found.done:,} jobs in {found.seconds:.1f} s ({rate:,.0f} jobs/s), {found.retries:,} retries",
            f"By state: {states}",
            "One is meant to be discarded: it publishes the report to a partner that never answers.",
            f"Report: {started.report_html}",
            f"Table:  {started.report_csv}",
            f"Mails:  {settings.MAIL_FOLDER}",
        ]
        self.stdout.write("\n".join(["", *lines]))
        files = (started.report_html, started.report_csv)
        faults = differences(planned(started), found) + [f"{it} is missing." for it in files if not it.exists()]
        if faults:
            raise CommandError("The import did not end as planned: " + " ".join(faults))

    def _serve(self, address: str, password: str, children: list[Child]) -> None:
        """Keeps the admin and the worker going until Ctrl-C, or until one of them ends by itself."""
        self.stdout.write(f"\nAdmin:  http://{address}/admin/   user {USER}, password {password}")
        self.stdout.write("The worker goes on; Ctrl-C stops everything.")
        self.stdout.flush()  # where the output goes into a file or a pipe, nothing else would for as long as it serves
        try:
            while all(child.running for child in children):
                time.sleep(LOOK_EVERY)
        except KeyboardInterrupt:
            self.stdout.write("\nStopped.")
            return
        ended = next(child for child in children if not child.running)
        raise CommandError(f"The {ended.name} ended; see {ended.log}: {ended.last_words()}")


def whole_number(option: str, text: str | None, highest: int) -> int | None:
    """The number given for an option, None where none is; raises CommandError unless it is 1 to `highest`."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= highest):
        raise CommandError(f"{option} takes a whole number from 1 to {highest}, not {text!r}.")
    return int(text)


def renewed_login() -> str:
    """Makes the demo's superuser, or gives the one already there a new password; returns the password."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(username=USER)
    user.is_staff = user.is_superuser = user.is_active = True
    user.set_password(password)
    user.save()
    return password


def await_answer(server: Child, port: int) -> None:
    """Waits until the port is served or the server has ended, so that the address is good as soon as it is printed."""
    give_up_at = time.monotonic() + ANSWERS_AFTER
    while server.running and time.monotonic() < give_up_at:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(LOOK_EVERY)


def default_port() -> int:
    """The usual port where it is free, else one that is."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return free_port()
    return PORT
