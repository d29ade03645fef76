"""Turns the records of an import into a report: statistics of each group, and the loneliest places."""

from __future__ import annotations

import csv
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.db.models import Avg, Count, Max, Q
from django.template.loader import render_to_string

from example_project.imports.models import CsvImport, Record

LONELIEST = 10


@dataclass(frozen=True, slots=True)
class Group:
    """One line of the report; distances in km, None where no record of the group is located."""

    group: str
    records: int
    with_gaps: int
    mean_distance_km: float | None
    greatest_distance_km: float | None


def groups(source: CsvImport) -> list[Group]:
    """The statistics of each group, the largest group first."""
    rows = source.records.values("group").annotate(
        records=Count("pk"),
        with_gaps=Count("pk", filter=~Q(gaps=[])),
        mean_distance_km=Avg("distance_km"),
        greatest_distance_km=Max("distance_km"),
    )
    return [Group(**row) for row in rows.order_by("-records", "group")]


def loneliest(source: CsvImport) -> list[Record]:
    """The records whose nearest neighbour is farthest away."""
    located = source.records.filter(distance_km__isnull=False).select_related("nearest")
    return list(located.order_by("-distance_km", "number")[:LONELIEST])


def summary(source: CsvImport) -> str:
    """The text of the mail."""
    lines = [f"{source.total} records of {source.source} were examined.", ""]
    lines += [f"{it.label} ({it.group}): {it.distance_km:.0f} km to {it.nearest}" for it in loneliest(source)]
    return "\n".join([*lines, "", f"The whole report: {source.report_html}"])


def write(source: CsvImport) -> None:
    """Writes report.csv and report.html into the import's folder, each complete or not at all."""
    statistics = groups(source)
    table = StringIO()
    writer = csv.writer(table)
    writer.writerow([field.name for field in fields(Group)])
    writer.writerows(astuple(group) for group in statistics)
    page = {"source": source, "groups": statistics, "loneliest": loneliest(source)}
    _replace(source.report_csv, table.getvalue())
    _replace(source.report_html, render_to_string("imports/report.html", page))


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", newline="", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
