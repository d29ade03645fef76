"""What operators decide about a queue: its limits, shares and retention. Each change leaves one audit row.

The rows are obeyed by the SQL functions from the next call on. Checked here is what a person may have mistyped, so that the
answer is a sentence; the tables refuse the same by themselves.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, connections, transaction

from django_stampeded import functions
from django_stampeded.actions.audit import Actor, recorded
from django_stampeded.columns import LARGEST_INTEGER, is_name
from django_stampeded.conf import settings
from django_stampeded.models import ALL_QUEUES, QueueLimit, QueuePolicy

logger = logging.getLogger("django_stampeded.actions")

LIMITS = ("max_running", "rate_limit", "rate_period_secs")
KEEPS = ("keep_completed_secs", "keep_discarded_secs", "keep_cancelled_secs")
POLICY = (*LIMITS, "max_wait_secs", "fair_tenants", *KEEPS)
"""What of a policy operators write."""


def change_policy(queue: str, changes: dict[str, int | bool | None], *, actor: Actor, using: str | None = None) -> None:
    """Write what an operator decides about a queue, making its policy row if it has none.

    A queue that keeps its jobs for a time of its own gets a partition of its own, without which pruning would have to read
    over the jobs of others.

    Args:
        queue: the queue, 1 to 255 characters.
        changes: those of POLICY to change: ``max_running`` (jobs at a time), ``rate_limit`` starts in any
            ``rate_period_secs`` seconds, ``max_wait_secs`` (s), each above 0; ``keep_…_secs``, 0 or more; None for none;
            ``fair_tenants``, True or False.
        actor: who does it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: the name, or the name or value of a change, is not valid.

    Example:
        >>> change_policy("mail", {"rate_limit": 30, "rate_period_secs": 1}, actor=Actor("ann"))
    """
    alias = using or settings.DATABASE
    _check_one_queue(queue)
    _check(changes, POLICY)
    if any(changes.get(name) is not None for name in KEEPS):
        _give_partition(queue, alias)
    with recorded("change_policy", actor, alias, queue=queue, **changes):
        policy, _ = QueuePolicy.objects.using(alias).get_or_create(pk=queue)
        _check_rate(policy, changes)
        QueuePolicy.objects.using(alias).filter(pk=queue).update(**changes)


def change_limit(
    queue: str,
    scope: str,
    value: str | None,
    changes: dict[str, int | None],
    *,
    actor: Actor,
    using: str | None = None,
) -> None:
    """Write a limit of each tenant, destination or limit key in a queue, or of one by name. One that limits nothing goes.

    Args:
        queue: the queue, 1 to 255 characters.
        scope: ``tenant``, ``destination`` or ``key``.
        value: which one, 1 to 255 characters; None for each that has no limit of its own.
        changes: those of LIMITS to change, as for `change_policy`.
        actor: who does it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: a name or value is not valid.

    Example:
        >>> change_limit("mail", "tenant", None, {"max_running": 2}, actor=Actor("ann"))
    """
    alias = using or settings.DATABASE
    _check_one_queue(queue)
    _check(changes, LIMITS)
    _check_key(scope, value)
    with recorded("change_limit", actor, alias, queue=queue, scope=scope, value=value, **changes):
        QueuePolicy.objects.using(alias).get_or_create(pk=queue)
        limits = QueueLimit.objects.using(alias)
        limit = limits.filter(queue_id=queue, scope=scope, value=value).first()
        limit = limit or QueueLimit(queue_id=queue, scope=scope, value=value)
        _check_rate(limit, changes)
        for name, number in changes.items():
            setattr(limit, name, number)
        if limit.max_running is not None or limit.rate_limit is not None:
            limit.save(using=alias)
        elif limit.pk is not None:
            limit.delete(using=alias)


def check_queue_name(queue: str) -> None:
    """Raises ValueError, with a sentence for people, for what can't be a queue's name."""
    if not is_name(queue):
        raise ValueError("A queue's name has 1 to 255 characters and no NUL: correct the name.")


def _check_one_queue(queue: str) -> None:
    check_queue_name(queue)
    if queue == ALL_QUEUES:
        raise ValueError("All queues together can only be paused: name one queue.")


def _check_key(scope: str, value: str | None) -> None:
    if scope not in QueueLimit.Scope.values:
        raise ValueError(f"A limit is of a {' or a '.join(QueueLimit.Scope.values)}: choose one of these.")
    if value is not None and not is_name(value):
        raise ValueError(f"A {scope} has 1 to 255 characters and no NUL: correct it.")


def _check(changes: dict[str, Any], known: tuple[str, ...]) -> None:
    if unknown := set(changes) - set(known):
        raise ValueError(f"A queue has no limit named {', '.join(sorted(unknown))}: use {', '.join(known)}.")
    for name, value in changes.items():
        least = 0 if name in KEEPS else 1
        if name == "fair_tenants":
            if not isinstance(value, bool):
                raise ValueError("fair_tenants is True or False: correct it.")
        elif value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_INTEGER
        ):
            raise ValueError(f"{name} is a whole number from {least} to {LARGEST_INTEGER}, or none: correct it.")


def _check_rate(row: QueuePolicy | QueueLimit, changes: dict[str, Any]) -> None:
    limit, period = (changes.get(name, getattr(row, name)) for name in ("rate_limit", "rate_period_secs"))
    if (limit is None) != (period is None):
        raise ValueError("A rate is so many starts in so many seconds: give both rate_limit and rate_period_secs, or neither.")


def _give_partition(queue: str, alias: str) -> None:
    """Without one the policy holds as well, only pruning is slower: so a refusal is no reason to fail."""
    try:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            functions.create_queue(cursor, queue)
    except DatabaseError as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        logger.warning("Queue %r got no partition of its own, so pruning it is slower: %s", queue, reason)
