"""`manage.py runstampeded`: the worker and the maintenance, in child processes under a supervisor or in this one.

Owns the flags and what is wrong with them, in one sentence each. Processes are supervisor/'s, what runs in one of them is
runner.py's.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from django_stampeded.conf import FIELDS, settings
from django_stampeded.exceptions import SchemaMismatch, ServerTooOld
from django_stampeded.management.console.migrating import migrate
from django_stampeded.process.line import Child
from django_stampeded.runner import Roles, StopRequest, run
from django_stampeded.supervisor import Orders, Supervisor
from django_stampeded.supervisor.reloading import Watch
from django_stampeded.worker.options import WorkerOptions
from django_stampeded.worker.selection import Selection, select

LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


class Command(BaseCommand):
    help = (
        "Runs jobs in threads of child processes that this one watches over, and the maintenance that every install needs. "
        "SIGTERM or SIGINT ends it in order: no more claims, then up to the grace period for what runs. A second signal "
        "ends it at once."
    )

    stop: StopRequest | None = None
    child: Child | None = None
    status = 0

    def run_from_argv(self, argv: list[str]) -> None:
        """Handle signals before anything else: system checks and imports may take a while."""
        self.child = Child.adopt()
        self.stop = StopRequest().install()
        if self.child is not None:
            self.stop.obey(self.child)
            self.requires_system_checks = []  # its parent has made them
        super().run_from_argv(argv)
        sys.stdout.flush()
        sys.stderr.flush()
        logging.shutdown()
        # Threads of jobs that outlived their grace period are released and must not go on: no waiting for them,
        # no atexit hooks that their code may have registered.
        os._exit(self.status)

    def add_arguments(self, parser: CommandParser) -> None:
        """The flags; what is left out comes from the settings."""
        parser.add_argument(
            "-q",
            "--queue",
            action="append",
            default=[],
            metavar="NAMES",
            help="Queues to take jobs from, with commas or given again: default,mail. mail:5 holds at most 5 jobs of "
            "mail at a time. '*', as when left out, is every queue with work.",
        )
        parser.add_argument(
            "--except-queues", action="append", default=[], metavar="NAMES", help="Queues never to take jobs from."
        )
        self._add_other_arguments(parser)

    def _add_other_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--threads", metavar="N", help="Jobs that each process runs at a time (setting THREADS).")
        parser.add_argument(
            "--processes",
            metavar="N",
            help="Child processes to run jobs in (setting PROCESSES). 0: run everything in this process, unsupervised.",
        )
        parser.add_argument(
            "--migrate", action="store_true", help="Apply pending migrations first; several processes at once take turns."
        )
        parser.add_argument(
            "--reload", action="store_true", help="For development: start the processes anew when code changes."
        )
        parser.add_argument("--max-jobs", metavar="N", help="Replace a process by a new one after so many jobs.")
        parser.add_argument("--max-rss", metavar="MIB", help="Replace a process by a new one once it occupies so much memory.")
        parser.add_argument(
            "--drain", "--once", action="store_true", help="Run everything that is due, then exit with status 0."
        )
        parser.add_argument("--no-worker", action="store_true", help="Maintenance only: run no jobs.")
        parser.add_argument("--no-maintenance", action="store_true", help="Run jobs only.")
        parser.add_argument("--database", metavar="ALIAS", help="Alias in DATABASES (setting DATABASE).")
        parser.add_argument(
            "--poll-interval", metavar="SECONDS", help="Seconds between two looks for due jobs (setting POLL_INTERVAL)."
        )
        parser.add_argument(
            "--grace-period",
            metavar="SECONDS",
            help="Seconds that running jobs get to end after SIGTERM (setting GRACE_PERIOD).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until told to stop. Raises CommandError for flags that don't go together or mean nothing."""
        roles = roles_of(options)
        log_to_stderr(options["verbosity"])
        connections.close_all()  # the system checks may have opened some, and this thread needs none
        stop = self.stop or StopRequest()
        if options["migrate"] and self.child is None:
            verbosity = max(0, options["verbosity"] - 1)
            if not migrate(roles.alias, lambda: bool(stop.count), verbosity=verbosity, stdout=self.stdout):
                return
            connections.close_all()
        processes = _given(options, "processes", "PROCESSES", int) if self.stop and roles.worker is not None else 0
        if processes and self.child is None:
            self.status = Supervisor(orders_of(roles, processes, options["reload"]), stop).run()
        else:
            if options["reload"] and self.child is None:
                raise CommandError("--reload needs a process to start anew: give --processes 1 or more, and no --no-worker.")
            if self.child is not None and self.child.number > 1:
                roles = replace(roles, maintenance=False)
            try:
                self.status = run(roles, stop, self.child)
            except (SchemaMismatch, ServerTooOld) as exc:
                raise CommandError(str(exc)) from None


def roles_of(options: dict[str, Any]) -> Roles:
    """What the flags ask for. Raises CommandError, a sentence for each thing that can be wrong.

    Example: `roles_of({"queue": ["mail:5"], "threads": "2", ...})`
    """
    if options["no_worker"] and options["no_maintenance"]:
        raise CommandError("--no-worker and --no-maintenance leave nothing to do: give only one of them.")
    if options["no_worker"] and options["drain"]:
        raise CommandError("--drain runs jobs and --no-worker runs none: give only one of them.")
    alias = options["database"] or settings.DATABASE
    if alias not in connections:
        raise CommandError(f"--database {alias!r} is not in DATABASES: use one of {', '.join(connections)}.")
    if connections[alias].vendor != "postgresql":
        raise CommandError(f"The database {alias!r} is not PostgreSQL: name one that is with --database.")
    if options["no_worker"]:
        return Roles(worker=None, maintenance=True, alias=alias)
    overrides: dict[str, Any] = {}
    if options["max_jobs"] is not None:
        overrides["max_jobs"] = _at_least_1("--max-jobs", options["max_jobs"])
    for flag, setting, read in _NUMBERS:
        if options[flag] is not None:
            overrides[flag] = _number(flag, setting, options[flag], read)
    worker = WorkerOptions(selection=_selection(options), alias=alias, drain=options["drain"], **overrides)
    max_rss = options["max_rss"]
    return Roles(
        worker=worker,
        maintenance=not options["no_maintenance"],
        alias=alias,
        max_jobs=worker.max_jobs,
        max_rss=None if max_rss is None else _at_least_1("--max-rss", max_rss),
    )


def orders_of(roles: Roles, processes: int, reloads: bool = False) -> Orders:
    """What the supervisor is to do: its children execute what this process was started by."""
    assert roles.worker is not None
    return Orders(
        command=[sys.executable, *sys.orig_argv[1:]],
        processes=processes,
        alias=roles.alias,
        grace_period=roles.worker.grace_period,
        heartbeat_interval=roles.worker.heartbeat_interval,
        drain=roles.worker.drain,
        changed=Watch().changed if reloads else None,
    )


_NUMBERS: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("threads", "THREADS", int),
    ("poll_interval", "POLL_INTERVAL", float),
    ("grace_period", "GRACE_PERIOD", float),
)


def _number(flag: str, setting: str, text: Any, read: Callable[[str], float]) -> Any:
    name = "--" + flag.replace("_", "-")
    try:
        return FIELDS[setting].metadata["check"](read(text))
    except ValueError as exc:
        reason = str(exc)
        if not reason.startswith("must"):
            reason = "must be a whole number" if read is int else "must be a number of seconds"
        raise CommandError(f"{name} {text!r} {reason}.") from None


def _given(options: dict[str, Any], flag: str, setting: str, read: Callable[[str], float]) -> Any:
    text = options[flag]
    return getattr(settings, setting) if text is None else _number(flag, setting, text, read)


def _at_least_1(flag: str, text: Any) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise CommandError(f"{flag} {text!r} must be a whole number of 1 or more.")
    return number


def _selection(options: dict[str, Any]) -> Selection:
    try:
        return select(options["queue"], options["except_queues"])
    except ValueError as exc:
        raise CommandError(str(exc)) from None


def log_to_stderr(verbosity: int) -> None:
    """Where the project configured no logging for us, say on stderr what happens. Its own configuration wins."""
    logger = logging.getLogger("django_stampeded")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(LEVELS.get(verbosity, logging.INFO))
