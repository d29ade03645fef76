"""What an operator may do to circuit breakers: trip and reset. Each leaves one audit row."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from django_stampeded import breaker_functions, signals
from django_stampeded.actions.audit import Actor, clean, recorded
from django_stampeded.breaking import Key
from django_stampeded.columns import is_name
from django_stampeded.conf import settings
from django_stampeded.models import Breaker


def trip_breaker(
    kind: str,
    key: str,
    *,
    actor: Actor,
    reason: str = "",
    until: datetime | None = None,
    using: str | None = None,
) -> None:
    """Hold back the jobs of a destination, or of a task where they have none, whether or not any has failed.

    Args:
        kind: ``destination`` or ``task``.
        key: which one, 1 to 255 characters.
        actor: who does it.
        reason: why, kept on record; cut to LONGEST_REASON characters.
        until: when probes decide, in the future and with a time zone; None until somebody resets it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: the kind or key is not valid, or `until` is not a time to come.

    Example:
        >>> trip_breaker("destination", "api.example.org", actor=Actor("ann"), reason="they are moving house")
    """
    found = _checked(kind, key)
    if until is not None and (until.utcoffset() is None or until <= timezone.now()):
        raise ValueError("A breaker stays open until a time to come, with a time zone: correct the time, or leave it out.")
    alias = using or settings.DATABASE
    about = {"kind": kind, "key": key, "reason": clean(reason), "until": until.isoformat() if until else ""}
    with recorded("trip_breaker", actor, alias, **about) as cursor:
        was = breaker_functions.trip(cursor, found, clean(reason) or None, until)
    if was == Breaker.State.CLOSED:
        signals.breaker_opened.send_robust(Key, kind=kind, key=key, using=alias)


def reset_breaker(kind: str, key: str, *, actor: Actor, using: str | None = None) -> bool:
    """Let the jobs of a destination or task start again; parameters and errors as for `trip_breaker`.

    Returns:
        Whether there is such a breaker.
    """
    found = _checked(kind, key)
    alias = using or settings.DATABASE
    with recorded("reset_breaker", actor, alias, kind=kind, key=key) as cursor:
        was = breaker_functions.reset(cursor, found)
    if was not in (None, Breaker.State.CLOSED):
        signals.breaker_closed.send_robust(Key, kind=kind, key=key, using=alias)
    return was is not None


def _checked(kind: str, key: str) -> Key:
    if kind not in Breaker.Kind.values:
        raise ValueError(f"A breaker is of a {' or a '.join(Breaker.Kind.values)}: choose one of these.")
    if not is_name(key):
        raise ValueError(f"A {kind} has 1 to 255 characters and no NUL: correct it.")
    return Key(kind, key)
