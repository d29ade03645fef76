"""What of a job's arguments may be shown: secret-looking names hidden, everything else cut to a bounded size.

Pure: values and patterns in, values out. Which names look secret is the setting REDACT; who shows the result is the
surfaces' affair. Redaction is for people and logs: the worker always gets the arguments as they were enqueued.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HIDDEN = "[redacted]"
_CREDENTIALS_IN_URL = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]{1,20}://[^\s/:@]{0,200}):[^\s/@]{1,500}@")
_NAMED_VALUE = re.compile(
    r"""(?P<name>["']?[A-Za-z_][\w.-]{0,80}["']?)(?P<sign>\s?=\s?|(?<=["'])\s?:\s?)"""
    r"""(?P<value>"[^"]{0,2000}"?|'[^']{0,2000}'?|[^\s"',;&)}\]]{1,2000})"""
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a value is shown.

    Args:
        text: longest string, in characters.
        items: most entries of one list or object.
        depth: deepest nesting shown.
    """

    text: int = 500
    items: int = 100
    depth: int = 12


class Redactor:
    """Hides secrets in arguments and in text.

    Args:
        patterns: regular expressions; a name that one of them is found in is secret. Compared without regard to case.
        limits: how much of a value is shown.

    Example:
        >>> Redactor(["password"]).value({"user": "ann", "db_password": "x"})
        {'user': 'ann', 'db_password': '[redacted]'}
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]], limits: Limits | None = None) -> None:
        self._patterns = [
            pattern if isinstance(pattern, re.Pattern) else re.compile(pattern, re.IGNORECASE) for pattern in patterns
        ]
        self._limits = limits or Limits()

    def is_secret(self, name: str) -> bool:
        """True when an argument of this name must not be shown."""
        return any(pattern.search(name) for pattern in self._patterns)

    def value(self, value: Any) -> Any:
        """The value, JSON-able, with secrets hidden at any depth and long parts cut."""
        return self._show(value, self._limits.depth)

    def text(self, text: str, limit: int | None = None) -> str:
        """The text with passwords in URLs and ``secret_name=value`` pairs hidden, cut to `limit` characters."""
        shown = _cut(text, self._limits.text if limit is None else limit)
        shown = _CREDENTIALS_IN_URL.sub(rf"\g<scheme>:{HIDDEN}@", shown)
        return _NAMED_VALUE.sub(self._hide_named, shown)

    def restore(self, edited: Any, stored: Any) -> Any:
        """What somebody meant who edited what `value` showed of `stored`: hidden parts left alone are as they were stored.

        Example:
            >>> redactor.restore({"order": 8, "password": "[redacted]"}, {"order": 7, "password": "x"})
            {'order': 8, 'password': 'x'}
        """
        if edited == self.value(stored):
            return stored
        if isinstance(edited, Mapping) and isinstance(stored, Mapping):
            return {name: self._restore_named(name, item, stored) for name, item in edited.items()}
        if isinstance(edited, list) and isinstance(stored, list) and len(edited) == len(stored):
            return [self.restore(item, before) for item, before in zip(edited, stored, strict=True)]
        return edited

    def leaves_hidden(self, given: Any, stored: Any) -> bool:
        """Whether `restore` gave something that still has a part hidden, which nothing stored could be put in place of."""
        return json.dumps(given).count(HIDDEN) > json.dumps(stored).count(HIDDEN)

    def _restore_named(self, name: str, item: Any, stored: Mapping[str, Any]) -> Any:
        if name not in stored:
            return item
        return stored[name] if self.is_secret(name) and item == HIDDEN else self.restore(item, stored[name])

    def _hide_named(self, match: re.Match[str]) -> str:
        if self.is_secret(match["name"].strip("\"'")):
            return f"{match['name']}{match['sign']}{HIDDEN}"
        return match[0]

    def _show(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if depth <= 0 and isinstance(value, Mapping | list | tuple):
            return "…"
        if isinstance(value, Mapping):
            return self._show_mapping(value, depth)
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
            shown = [self._show(item, depth - 1) for item in value[: self._limits.items]]
            left_out = len(value) - len(shown)
            return [*shown, f"… ({left_out} more)"] if left_out else shown
        return value

    def _show_mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for position, (name, item) in enumerate(value.items()):
            if position == self._limits.items:
                shown["…"] = f"({len(value) - position} more)"
                break
            label = _cut(str(name), self._limits.text)
            shown[label] = HIDDEN if self.is_secret(str(name)) else self._show(item, depth - 1)
        return shown


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters)"
