"""Building and removing the opt-in index that serves searches by an argument, while jobs are enqueued and run.

Each partition's part is built CONCURRENTLY; what needs the tables to itself for a moment asks briefly and again, so that
nobody has to wait behind it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connections, transaction

from django_stampeded import operator_functions as sql
from django_stampeded.actions.audit import Actor, recorded
from django_stampeded.conf import settings

PATIENCE = 30.0
"""Seconds for which a lock is asked for."""
_ASK_MS = 200


def index_arguments(*, actor: Actor, using: str | None = None) -> None:
    """Build the index that serves searches by an argument; what an interrupted call has left is built anew.

    Partitions that are made later get it by themselves. It takes minutes where there are millions of jobs.

    Args:
        actor: who does it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: a transaction is in progress, another process is at it, or somebody's transaction held the jobs too long.

    Example:
        >>> index_arguments(actor=Actor("ann"))
    """
    alias = using or settings.DATABASE
    with _turn(alias) as cursor:
        _briefly(alias, sql.begin_arguments_index)
        for partition, part, valid in sql.parts_without_arguments_index(cursor):
            if valid is False:
                sql.drop_part_of_arguments_index(cursor, part)
            if not valid:
                sql.build_part_of_arguments_index(cursor, partition, part)
            _briefly(alias, sql.attach_part_of_arguments_index, part)
        with recorded("index_arguments", actor, alias):
            pass


def drop_arguments_index(*, actor: Actor, using: str | None = None) -> None:
    """Remove that index, and what an interrupted build has left of it.

    Args:
        actor: who does it.
        using: database alias; the setting DATABASE when None.

    Raises:
        ValueError: as `index_arguments`.

    Example:
        >>> drop_arguments_index(actor=Actor("ann"))
    """
    alias = using or settings.DATABASE
    with _turn(alias) as cursor:
        _briefly(alias, sql.drop_arguments_index)
        for _partition, part, valid in sql.parts_without_arguments_index(cursor):
            if valid is not None:
                sql.drop_part_of_arguments_index(cursor, part)
        with recorded("drop_arguments_index", actor, alias):
            pass


@contextmanager
def _turn(alias: str) -> Iterator[Any]:
    """A cursor outside any transaction, for one process at a time."""
    if connections[alias].in_atomic_block:
        raise ValueError("An index is built and removed outside any transaction: end the one in progress first.")
    with connections[alias].cursor() as cursor:
        if not sql.take_turn_with_arguments_index(cursor):
            raise ValueError("Another process is building or removing the index of arguments: wait until it has finished.")
        try:
            yield cursor
        finally:
            sql.end_turn_with_arguments_index(cursor)


def _briefly(alias: str, act: Callable[..., None], *arguments: Any) -> None:
    """Does what needs a lock that stops others, without making them wait behind it."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                sql.wait_at_most(cursor, _ASK_MS)
                act(cursor, *arguments)
            return
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") != "55P03":  # lock_not_available
                raise
            if time.monotonic() > give_up:
                raise ValueError("A transaction that uses the jobs stays open: end it, and do the same again.") from None
            time.sleep(random.uniform(0.05, 0.15))
