"""How answers are printed: a table or lines for people, one JSON document for programs.

Text from jobs is data: control characters are shown, not sent to the terminal, which would obey them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

WIDEST_CELL = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subcommand found or did.

    Args:
        data: for ``--json``.
        text: for people.
        exit_code: 0 when all is well, 1 when there is trouble.
    """

    data: Any
    text: str
    exit_code: int = 0


def as_json(data: Any) -> str:
    """One JSON document, readable by eye too."""
    return json.dumps(data, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> str:
    """Rows under headings, columns aligned; `empty` when there are none."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        return empty
    widths = [max(len(line[place]) for line in [list(headings), *cells]) for place in range(len(headings))]
    lines = [list(headings), *cells]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def plain(text: str) -> str:
    """The text without anything that a terminal would obey; line ends and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text)


def _cell(value: Any) -> str:
    text = "" if value is None else plain(str(value)).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= WIDEST_CELL else f"{text[: WIDEST_CELL - 1]}…"
