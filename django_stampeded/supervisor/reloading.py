"""Notices that code has changed, for `--reload` in development."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from django.utils.autoreload import StatReloader

EVERY_S = 1.0


class Watch:
    """Watches the files of the modules that are loaded here, as runserver does.

    Example: `Orders(..., changed=Watch().changed)`
    """

    def __init__(self) -> None:
        self._reloader = StatReloader()
        self._seen: dict[Path, float] = {}
        self._looked_at = float("-inf")

    def changed(self) -> str | None:
        """A file that changed since the last time, None for none. It looks once a second, however often it is asked."""
        now = monotonic()
        if now - self._looked_at < EVERY_S:
            return None
        first, self._looked_at = not self._seen, now
        found = None
        for path, modified in self._reloader.snapshot_files():
            before = self._seen.get(path)
            self._seen[path] = modified
            if before is not None and modified != before:
                found = str(path)
        return None if first else found
