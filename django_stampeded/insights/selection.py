"""Which jobs somebody means: the parts of a selection, and what they ask of the database.

How the jobs are then read, in bounded steps along an index, is `paging.py`'s part. Reading only.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_stampeded.conf import settings
from django_stampeded.insights.alias import chosen
from django_stampeded.insights.redaction import Redactor
from django_stampeded.models import Job
from django_stampeded.states import FINAL, State

WHOLE_FINGERPRINT = 32  # bytes
RECENT = 1_000
GROUPED = (State.RETRYABLE, State.DISCARDED)
"""The states whose jobs are indexed by the fingerprint of their error."""
_AGE = re.compile(r"(\d{1,6})([mhd])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_NAMED_VALUE = re.compile(r"\s*([^=:\s]+)\s*[=:]\s*(.*?)\s*", re.DOTALL)
_NOTHING_BUT_AN_ARGUMENT = re.compile(r"[^=:\s]+[=:](?![=:/\s]).+", re.DOTALL)  # no ValueError: x, a::b or https://…


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are wanted; empty parts do not narrow.

    Args:
        queue: of this queue.
        state: in this state.
        task: of this task, by its full name.
        failure_kind: whose latest failure was of this kind, and which have not completed since.
        fingerprint: whose latest error has this fingerprint, in hexadecimal; its first digits will do.
        text: an id, ``argument:value`` (or with =) without spaces, or a part of the task's name or of the error.
        tenant: of this tenant.
        batch: of the batch with this id.
        since: that ended (final states) or were enqueued (others) since then: ISO 8601, or an age as 15m, 6h, 7d.
        until: likewise, before this moment.
    """

    queue: str = ""
    state: str = ""
    task: str = ""
    failure_kind: str = ""
    fingerprint: str = ""
    text: str = ""
    tenant: str = ""
    batch: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def stored(cls, parts: Any) -> Selection:
        """The selection that `as_parts` gave, read back from JSON."""
        known = cls.__slots__
        return cls(**{name: str(value) for name, value in dict(parts).items() if name in known})

    def as_parts(self) -> dict[str, str]:
        """The parts that narrow, by name."""
        return {name: value for name, value in asdict(self).items() if value}

    def fixed(self) -> Selection:
        """The same with ages turned into moments, so that it means the same jobs later on."""
        parts = asdict(self)
        for name in ("since", "until"):
            moment = moment_of(parts[name])
            parts[name] = moment.isoformat() if moment else parts[name]
        return Selection(**parts)

    @property
    def indexed(self) -> bool:
        """True when only state and queue narrow, so that the counts view knows the number."""
        return not (set(self.as_parts()) - {"queue", "state"})

    @property
    def job_id(self) -> UUID | None:
        """The id that the text is, if it is one."""
        return parse_id(self.text)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """What the text says of arguments, if it speaks of nothing else; any one of these will do. Empty if not."""
        text = self.text.strip()
        return _arguments_of(text) if _NOTHING_BUT_AN_ARGUMENT.fullmatch(text) and self.job_id is None else []

    @property
    def storable(self) -> bool:
        """False where a part holds what PostgreSQL's text cannot (NUL, lone surrogates): a search for it would be an error."""
        return all(_storable(part) for part in astuple(self))


def parse_id(text: str) -> UUID | None:
    """The UUID written in the text, or None."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """The moment that a text means, an age (15m, 6h, 7d) or ISO 8601; None for another text."""
    try:
        if age := _AGE.fullmatch(text.strip()):
            return timezone.now() - timedelta(**{_UNITS[age[2]]: int(age[1])})
        moment = parse_datetime(text.strip())
        if moment is None:
            return None
        aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def narrowing(selection: Selection) -> Q:
    """What state, queue, time and fingerprint leave of a selection: task, tenant, batch, failure kind, text."""
    wanted = Q()
    if selection.task:
        wanted &= Q(task=selection.task)
    if selection.tenant:
        wanted &= Q(tenant_id=selection.tenant)
    if selection.batch:
        wanted &= batch_is(selection.batch)
    if selection.failure_kind:
        wanted &= Q(failure_kind=selection.failure_kind)
    if selection.arguments:
        wanted &= has_any(selection.arguments)
    elif selection.text.strip() and selection.job_id is None:
        wanted &= _text_matches(selection.text.strip())
    return wanted


def has_any(arguments: list[dict[str, Any]]) -> Q:
    """The jobs that have one of these arguments at least."""
    wanted = Q()
    for each in arguments:
        wanted |= Q(args__contains=each)
    return wanted


def batch_is(text: str) -> Q:
    """The jobs of the batch with this id."""
    batch_id = parse_id(text)
    return Q(pk__in=[]) if batch_id is None else Q(batch_id=batch_id)


def fingerprint_is(hexadecimal: str) -> Q:
    """The jobs whose error's fingerprint begins with these digits."""
    try:
        first = bytes.fromhex(hexadecimal)
    except ValueError:
        return Q(pk__in=[])
    if len(first) >= WHOLE_FINGERPRINT:
        return Q(error_fingerprint=first)
    beginning = Q(error_fingerprint__gte=first)
    after = int.from_bytes(first) + 1
    if after < 1 << 8 * len(first):
        beginning &= Q(error_fingerprint__lt=after.to_bytes(len(first)))
    return beginning


def time_range(selection: Selection, state: str) -> Q:
    """The selection's time, on the column that an index has: final jobs by their end, others by the time in their ids."""
    wanted = Q()
    for text, sign in ((selection.since, "gte"), (selection.until, "lt")):
        if not text:
            continue
        moment = moment_of(text)
        if moment is None:
            return Q(pk__in=[])
        if state in FINAL:
            wanted &= Q(**{f"finished_at__{sign}": moment})
        else:
            wanted &= Q(**{f"id__{sign}": _first_id_of(moment)})
    return wanted


class Shown:
    """Whether a job that the database found for a text matches by what may be shown of it.

    The database looks into errors as they are, secrets among them: without this a search could spell a hidden password out,
    letter by letter.
    """

    def __init__(self, selection: Selection) -> None:
        text = "" if selection.job_id is not None else selection.text.strip()
        self.needed = bool(text)
        self._text = text.casefold()
        self._redactor = Redactor(settings.REDACT)
        self._arguments = _arguments_of(text)
        self._nothing_else = bool(selection.arguments)

    def __call__(self, job: Job) -> bool:
        if any(_contains(job.args, wanted) for wanted in self._arguments):
            return True
        if self._nothing_else:
            return False
        if self._text in job.task.casefold():
            return True
        return self._text in self._redactor.text(job.last_error or "", len(job.last_error or "")).casefold()


def _first_id_of(moment: datetime) -> UUID:
    """The smallest version 7 UUID of a millisecond."""
    milliseconds = min(max(0, int(moment.timestamp() * 1000)), 2**48 - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62)


def _text_matches(text: str) -> Q:
    return Q(task__icontains=text) | Q(last_error__icontains=text) | has_any(_arguments_of(text))


def _arguments_of(text: str) -> list[dict[str, Any]]:
    """The arguments that ``name:value`` may mean. Whole values only, and never of a secret-looking name."""
    named = _NAMED_VALUE.fullmatch(text)
    if named is None or Redactor(settings.REDACT).is_secret(named[1]):
        return []
    return [{named[1]: spelling} for spelling in _spellings(named[2])]


def _contains(args: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(name in args and args[name] == value and _kind(args[name]) == _kind(value) for name, value in wanted.items())


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _spellings(value: str) -> list[Any]:
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    if isinstance(read, float) and not math.isfinite(read):
        return [value]
    # {} and [] are contained in every object and list: as a search they would match everything.
    return [value] if isinstance(read, dict | list) or read == value else [value, read]


def recent_tasks(using: str | None = None) -> list[str]:
    """The tasks of the newest jobs, by name: what is worth offering as a filter."""
    return _recent("task", using)


def recent_tenants(using: str | None = None) -> list[str]:
    """The tenants of the newest jobs, by name."""
    return _recent("tenant_id", using)


def _recent(column: str, using: str | None) -> list[str]:
    newest = Job.objects.using(chosen(using)).order_by("-id").values_list(column, flat=True)[:RECENT]
    return sorted({value for value in newest if value})
