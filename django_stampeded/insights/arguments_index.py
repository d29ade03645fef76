"""Searches by an argument: whether the index that serves them is there, and whether what it finds is few enough to be sorted.

The index is opt-in, as it costs each enqueue and each change of a state; `actions.index_arguments` builds it. It has no
order: where more jobs have an argument than a page may look at, the list is read along another index, on which they are
frequent then. Reading only.
"""

from __future__ import annotations

from django.db import connections

from django_stampeded import operator_functions
from django_stampeded.insights.alias import chosen, planned
from django_stampeded.insights.selection import Selection, has_any
from django_stampeded.models import Job


def arguments_are_indexed(using: str | None = None) -> bool:
    """Whether searches by an argument are served by an index.

    Args:
        using: database alias; the setting DATABASE when None.

    Example:
        >>> arguments_are_indexed()
        False
    """
    with connections[chosen(using)].cursor() as cursor:
        return operator_functions.arguments_index_is_valid(cursor) is True


def finds_few(selection: Selection, alias: str, most: int) -> bool:
    """Whether the text asks for an argument that the index finds in `most` jobs or fewer."""
    if not selection.arguments or not arguments_are_indexed(alias):
        return False
    with planned(alias, operator_functions.BY_MATCHES):
        matches = Job.objects.using(alias).filter(has_any(selection.arguments)).values("pk")
        return matches[: most + 1].count() <= most
