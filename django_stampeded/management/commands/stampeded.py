"""`manage.py stampeded …`: looks at the queue and acts on it from the command line.

Owns the options and the translation of errors into one sentence. What each subcommand does is `management/console`'s part.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist

from django_stampeded import schema
from django_stampeded.conf import settings
from django_stampeded.exceptions import SchemaMismatch, ServerTooOld
from django_stampeded.management.console import acting, deciding, reading
from django_stampeded.management.console.printing import Answer, as_json
from django_stampeded.models import Breaker, QueueLimit
from django_stampeded.states import FailureKind, State

_AGE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)(?P<unit>s|m|h|d)?")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, None: 1}


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One word after `stampeded`: its help, its own options, and what it runs."""

    help: str
    run: Callable[[str, dict[str, Any]], Answer]
    options: tuple[Callable[[CommandParser], None], ...] = ()


class Command(BaseCommand):
    help = "Looks at the job queue and acts on it."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="subcommand", required=True, metavar="subcommand")
        for name, subcommand in SUBCOMMANDS.items():
            own = words.add_parser(name, help=subcommand.help, description=subcommand.help)
            own.add_argument("--json", action="store_true", help="Print one JSON document.")
            own.add_argument("--database", help="Database alias; the setting DATABASE of STAMPEDED when left out.")
            for add in subcommand.options:
                add(own)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["subcommand"]
        alias = options["database"] or settings.DATABASE
        try:
            _check_database(alias, check_schema=name != "schema")
            answer = SUBCOMMANDS[name].run(alias, options)
        except (SchemaMismatch, ServerTooOld) as error:
            raise CommandError(str(error)) from None
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(_sentence(error, alias)) from error
        self.stdout.write(as_json(answer.data) if options["json"] else answer.text)
        if answer.exit_code:
            raise SystemExit(answer.exit_code)


def _check_database(alias: str, check_schema: bool) -> None:
    try:
        connection = connections[alias]
    except ConnectionDoesNotExist:
        known = ", ".join(connections)
        raise CommandError(f"There is no database alias “{alias}”: DATABASES has {known}.") from None
    if connection.vendor != "postgresql":
        raise CommandError(
            f"Database “{alias}” is {connection.display_name}, not PostgreSQL: "
            "name the one with the jobs by --database or by the setting DATABASE of STAMPEDED."
        )
    if check_schema:
        with connection.cursor() as cursor:
            schema.check_schema(cursor)


def _sentence(error: Exception, alias: str) -> str:
    """One line: the driver's texts run over several, the first says what is wrong."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"Database “{alias}” did not answer: {first}. Check that it runs and that DATABASES names it rightly."


def _job_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not an id, which is a UUID") from None


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise ArgumentTypeError(f"{text!r} is not an age; write 90s, 15m, 12h or 14d")
    return timedelta(seconds=float(match["number"]) * _UNITS[match["unit"]])


def _age_or_none(text: str) -> timedelta | str:
    return text if text == "none" else _age(text)


def _number_or_none(text: str) -> int | str:
    if text == "none":
        return text
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is neither a whole number nor none")
    return int(text)


def _rate(text: str) -> tuple[int, int] | str:
    if text == "none":
        return text
    number, slash, period = text.partition("/")
    if not (slash and number.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a rate; write 30/1s or 1000/1h, or none")
    return int(number), int(_age(period).total_seconds())


def _until(text: str) -> datetime:
    """A moment, or how long from now."""
    if _AGE.fullmatch(text):
        return timezone.now() + _age(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time; write 2h, or 2030-01-31T08:00+01:00") from None
    return moment if moment.utcoffset() is not None else timezone.make_aware(moment)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)


def _queue_option(parser: CommandParser) -> None:
    parser.add_argument("--queue", help="Only of this queue.")


def _limit_option(parser: CommandParser) -> None:
    parser.add_argument("--limit", type=_limit, default=50, help="At most so many rows, 1 to 1000; 50 by default.")


def _selecting(parser: CommandParser) -> None:
    _queue_option(parser)
    parser.add_argument("--state", choices=[state.value for state in State], help="Only in this state.")
    parser.add_argument("--task", help="Only of this task, by its full name.")
    parser.add_argument("--kind", choices=[kind.value for kind in FailureKind], help="Whose latest failure was of this kind.")
    parser.add_argument("--error", metavar="FINGERPRINT", help="Whose latest error's fingerprint begins so.")
    parser.add_argument("--batch", metavar="ID", type=_job_id, help="Only of the batch with this id.")
    parser.add_argument("--search", help="An id, argument=value, or a part of the task's name or of the error.")


def _one_id(parser: CommandParser) -> None:
    parser.add_argument("id", type=_job_id, help="The job's id.")


def _batch_id(parser: CommandParser) -> None:
    parser.add_argument("id", nargs="?", type=_job_id, help="A batch's id; the newest batches when left out.")
    parser.add_argument("--unfinished", action="store_true", help="Only those that have not finished.")


def _ids(parser: CommandParser) -> None:
    parser.add_argument("ids", nargs="*", type=_job_id, metavar="id", help="The jobs' ids.")
    parser.add_argument("--all", action="store_true", help="All jobs that the selecting options mean, instead of ids.")


def _yes(parser: CommandParser) -> None:
    parser.add_argument("--yes", action="store_true", help="Do not ask.")


def _reason(parser: CommandParser) -> None:
    parser.add_argument("--reason", default="", help="Why; kept on record.")


def _to(parser: CommandParser) -> None:
    parser.add_argument("--to", required=True, help="The other queue.")


def _queue_or_all(parser: CommandParser) -> None:
    parser.add_argument("queue", nargs="?", help="The queue's name.")
    parser.add_argument("--all", action="store_true", help="All queues, instead of one.")


def _pause_until(parser: CommandParser) -> None:
    parser.add_argument("--until", type=_until, help="When it ends by itself: 2h, or 2030-01-31T08:00+01:00.")


def _queue_named(parser: CommandParser) -> None:
    parser.add_argument("queue", nargs="?", help="The queue's name; all are listed when left out.")


def _limiting(parser: CommandParser) -> None:
    parser.add_argument("--max-running", type=_number_or_none, metavar="N", help="So many at a time, or none.")
    parser.add_argument("--rate", type=_rate, metavar="N/PERIOD", help="So many starts in any such period: 30/1s; or none.")


def _policy_options(parser: CommandParser) -> None:
    parser.add_argument("--max-wait", type=_age_or_none, metavar="AGE", help="How long its jobs may wait, or none.")
    parser.add_argument("--fair", choices=("yes", "no"), help="Whether its tenants get fair shares.")
    for state in ("completed", "discarded", "cancelled"):
        parser.add_argument(f"--keep-{state}", type=_age_or_none, metavar="AGE", help=f"How long {state} jobs stay, or none.")


def _limit_named(parser: CommandParser) -> None:
    _queue_named(parser)
    parser.add_argument("scope", nargs="?", choices=QueueLimit.Scope.values, help="What the limit is of.")
    parser.add_argument("value", nargs="?", help="Which one; each that has no limit of its own when left out.")
    parser.add_argument("--remove", action="store_true", help="Remove the limit.")


def _breaker_named(parser: CommandParser) -> None:
    parser.add_argument("act", nargs="?", choices=("trip", "reset"), help="What to do to one of them before.")
    parser.add_argument("kind", nargs="?", choices=Breaker.Kind.values, help="What it is of.")
    parser.add_argument("key", nargs="?", help="Which destination or task.")


def _max_wait(parser: CommandParser) -> None:
    parser.add_argument("--max-wait", type=float, default=300, help="A due job older than so many seconds is trouble; 300.")


def _remove_index(parser: CommandParser) -> None:
    parser.add_argument("--remove", action="store_true", help="Remove the index.")


def _schedule_options(parser: CommandParser) -> None:
    parser.add_argument("--run", metavar="KEY", help="Enqueue a job of this schedule now.")
    parser.add_argument("--pause", metavar="KEY", help="Pause this schedule.")
    parser.add_argument("--resume", metavar="KEY", help="Resume this schedule.")


def _ages(parser: CommandParser) -> None:
    form = "such as 90s, 15m, 12h or 14d; the setting's when left out"
    parser.add_argument("--completed-older-than", type=_age, help=f"Age of completed jobs to delete, {form}.")
    parser.add_argument("--failed-older-than", type=_age, help=f"Age of discarded and cancelled ones, {form}.")


_ON_JOBS = (_ids, _selecting, _yes)

SUBCOMMANDS = {
    "stats": Subcommand("Jobs by queue and state, oldest due jobs, workers.", reading.stats),
    "list": Subcommand("The newest jobs.", reading.list_jobs, (_selecting, _limit_option)),
    "show": Subcommand("One job, and why it is not running.", reading.show, (_one_id, _queue_option)),
    "errors": Subcommand("Failed jobs grouped by what went wrong.", reading.errors, (_queue_option,)),
    "batches": Subcommand("The newest batches, or one of them.", reading.batches, (_batch_id, _limit_option)),
    "workers": Subcommand("The workers and what they run.", reading.workers),
    "health": Subcommand("Exits with 0 when all is well, 1 when not.", reading.health, (_max_wait,)),
    "schema": Subcommand("Which SQL schema is installed and needed.", reading.schema_state),
    "retry": Subcommand("Makes failed or final jobs due now.", acting.on_jobs("retry"), _ON_JOBS),
    "run": Subcommand("Makes waiting jobs due now.", acting.on_jobs("run_now"), _ON_JOBS),
    "cancel": Subcommand("Cancels jobs that are not final.", acting.on_jobs("cancel"), (*_ON_JOBS, _reason)),
    "discard": Subcommand("Gives up jobs that are not final.", acting.on_jobs("discard"), (*_ON_JOBS, _reason)),
    "move": Subcommand("Puts jobs into another queue.", acting.on_jobs("move"), (*_ON_JOBS, _to)),
    "delete": Subcommand("Deletes jobs that do not run.", acting.on_jobs("delete"), _ON_JOBS),
    "pause": Subcommand("Stops claims from a queue, or from all.", acting.pause, (_queue_or_all, _reason, _pause_until)),
    "resume": Subcommand("Lets a queue be claimed from again.", acting.resume, (_queue_or_all,)),
    "policy": Subcommand(
        "Shows the policies of queues, or changes one.", deciding.policy, (_queue_named, _limiting, _policy_options)
    ),
    "limit": Subcommand("Shows the limits within queues, or changes one.", deciding.limit, (_limit_named, _limiting)),
    "breakers": Subcommand(
        "Shows the circuit breakers; trips or resets one.",
        deciding.breakers,
        (_breaker_named, _reason, _pause_until, _limit_option),
    ),
    "cron": Subcommand("Lists schedules; runs, pauses or resumes one.", acting.cron, (_schedule_options, _limit_option)),
    "index-arguments": Subcommand("Builds the index for searches by an argument.", deciding.index_arguments, (_remove_index,)),
    "prune": Subcommand("Deletes old finished jobs.", acting.prune, (_ages, _yes)),
}
