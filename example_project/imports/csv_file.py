"""Reads a CSV file row by row and finds out which columns name, group and locate a row.

Knows nothing of databases or jobs. Every problem with the file is one `CsvProblem` that says what to do.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

LABELS = ("name", "title", "label", "id")
GROUPS = ("state", "region", "country", "category", "type", "group", "city")
LATITUDES = ("latitude", "lat")
LONGITUDES = ("longitude", "lon", "lng", "long")
ABSENT = frozenset({"", "na", "n/a", "null", "none"})
DELIMITERS = ",;\t|"


class CsvProblem(ValueError):
    """The file can't be imported; the message says why, and what would make it importable."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what every row has (number, label, group), where it lies if known, and all its cells."""

    number: int
    label: str
    group: str
    latitude: float | None
    longitude: float | None
    cells: dict[str, str]


@dataclass(frozen=True, slots=True)
class Columns:
    """The header, and the columns that the import makes use of (None where the file has no such column)."""

    names: tuple[str, ...]
    label: str
    group: str | None
    latitude: str | None
    longitude: str | None


def airports() -> Path:
    """The airports of the vega-datasets package: 3,376 real rows, found without importing the package."""
    spec = find_spec("vega_datasets")
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise CsvProblem("The package vega-datasets is missing: install it, or name a file with --csv PATH.")
    return Path(locations[0]) / "_data" / "airports.csv"


def read(path: Path, limit: int | None = None) -> Iterator[Row]:
    """Yields the rows of the file, at most `limit` of them; raises CsvProblem at the first fault."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, file, limit)
    except UnicodeDecodeError:
        raise CsvProblem(f"{path} is not UTF-8 text: save it as UTF-8 and try again.") from None
    except csv.Error as error:
        raise CsvProblem(f"{path} is not a CSV file ({error}): check its quotes and separators.") from None
    except FileNotFoundError:
        raise CsvProblem(f"There is no file {path}: check the path.") from None
    except IsADirectoryError:
        raise CsvProblem(f"{path} is a folder: name a CSV file in it.") from None
    except OSError as error:
        raise CsvProblem(f"{path} can't be read ({error.strerror}): check its permissions.") from None


def count(path: Path, limit: int | None = None) -> int:
    """Reads the whole file, so that its faults show before anything is enqueued, and counts its rows."""
    rows = sum(1 for _ in read(path, limit))
    if rows == 0:
        raise CsvProblem(f"{path} has no rows below its header: there is nothing to import.")
    return rows


def columns(path: Path, header: Sequence[str]) -> Columns:
    """Chooses the columns by their names, in any letter case."""
    names = tuple(name.strip() for name in header)
    if not names or not all(names):
        raise CsvProblem(f"{path} has no complete header: its first line must name every column.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CsvProblem(f"{path} has two columns named {twice}: rename one of them.")
    return Columns(
        names=names,
        label=_first(names, LABELS) or names[0],
        group=_first(names, GROUPS),
        latitude=_first(names, LATITUDES),
        longitude=_first(names, LONGITUDES),
    )


def gaps(cells: dict[str, str]) -> list[str]:
    """The names of the columns that are empty in this row, or filled with a word for nothing."""
    return [name for name, cell in cells.items() if cell.strip().lower() in ABSENT]


def _rows(path: Path, file: TextIO, limit: int | None) -> Iterator[Row]:
    reader = csv.reader(file, delimiter=_delimiter(file))
    header = next(reader, None)
    if header is None:
        raise CsvProblem(f"{path} is empty: name a file with a header and at least one row.")
    known = columns(path, header)
    number = 0
    for fields in reader:
        if not fields:
            continue
        if number == limit:
            return
        number += 1
        if len(fields) != len(known.names):
            raise CsvProblem(
                f"{path}, line {reader.line_num}, has {len(fields)} fields where the header has "
                f"{len(known.names)}: mend that line."
            )
        if any("\0" in field for field in fields):
            raise CsvProblem(f"{path}, line {reader.line_num}, has a NUL character: remove it.")
        yield _row(number, known, dict(zip(known.names, fields, strict=True)))


def _row(number: int, known: Columns, cells: dict[str, str]) -> Row:
    latitude = _degrees(cells.get(known.latitude or ""), 90)
    longitude = _degrees(cells.get(known.longitude or ""), 180)
    located = latitude is not None and longitude is not None
    return Row(
        number=number,
        label=cells[known.label] or f"row {number}",
        group=cells[known.group] if known.group else "all rows",
        latitude=latitude if located else None,
        longitude=longitude if located else None,
        cells=cells,
    )


def _delimiter(file: TextIO) -> str:
    """The separator that the first line has most of; a comma where it has none."""
    first = file.readline()
    file.seek(0)
    return max(DELIMITERS, key=first.count)


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in wanted if name in by_lower), None)


def _degrees(cell: str | None, bound: float) -> float | None:
    try:
        degrees = float(cell or "")
    except ValueError:
        return None
    return degrees if -bound <= degrees <= bound else None
