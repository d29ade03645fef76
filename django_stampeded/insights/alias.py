"""Which database the read service looks at, the caller's choice, else the setting DATABASE; and how its planner is led."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connections, transaction

from django_stampeded import operator_functions
from django_stampeded.conf import settings


def chosen(using: str | None) -> str:
    """The database alias to read from."""
    return using or str(settings.DATABASE)


@contextmanager
def planned(alias: str, without: Sequence[str]) -> Iterator[None]:
    """A transaction whose statements the planner plans without these of its settings."""
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        before = operator_functions.plan_without(cursor, without)
        yield
        operator_functions.plan_as_before(cursor, before)
