"""Which database the read service looks at: the caller's choice, else the setting DATABASE."""

from __future__ import annotations

from django_stampeded.conf import settings


def chosen(using: str | None) -> str:
    """The database alias to read from."""
    return using or str(settings.DATABASE)
