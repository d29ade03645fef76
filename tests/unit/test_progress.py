"""Progress: what may be told, when it is written, and how it reads."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from django_stampeded.exceptions import InvalidArguments
from django_stampeded.functions import ClaimedJob
from django_stampeded.insights.progress import in_line, percent_of
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.progress import Progress, Reports, progress


def a_lease(reports: Reports) -> Lease:
    lease = Lease(ClaimedJob(*[None] * len(ClaimedJob._fields)), uuid4(), 0.0)  # type: ignore[arg-type]
    lease.reports = reports
    return lease


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ((4,), Progress(4)),
        ((4, 10), Progress(4, 10)),
        ((4, 10, "page 4"), Progress(4, 10, "page 4")),
        ((40, "page 4 of 10"), Progress(40, 100, "page 4 of 10")),
        ((33.9, 100.0), Progress(33, 100)),
        ((12, 10), Progress(12, 10)),
        ((1, 2, "a\x00\ud800b"), Progress(1, 2, "a\ufffd\ufffdb")),
        ((1, 2, "x" * 300), Progress(1, 2, "x" * 254 + "…")),
    ],
)
def test_what_is_told_is_units_of_a_total_or_a_percentage_with_a_text(told: Any, meant: Progress) -> None:
    assert progress(*told) == meant


@pytest.mark.parametrize("told", [(-1,), (1, -1), (float("nan"),), (float("inf"),), (None,), ("x",), (2**63,), (1, 2**63)])
def test_what_is_no_number_of_units_is_refused(told: Any) -> None:
    with pytest.raises(InvalidArguments, match="progress: (done|total) must be"):
        progress(*told)


def test_progress_is_taken_about_once_a_second_and_its_latest_counts() -> None:
    reports = Reports()
    lease = a_lease(reports)
    for n in range(1000):
        lease.note(Progress(n))
    assert reports.take(100.0) == [lease]
    assert lease.progress == Progress(999)
    lease.note(Progress(1000))
    assert reports.take(100.9) == []
    assert reports.take(101.0) == [lease]
    assert reports.take(200.0) == []


def test_the_last_progress_is_taken_at_any_time() -> None:
    reports = Reports()
    lease = a_lease(reports)
    lease.note(Progress(1))
    assert reports.take(100.0) == [lease]
    lease.note(Progress(2))
    assert reports.take(100.1, last=True) == [lease]


def test_progress_that_could_not_be_written_is_taken_again() -> None:
    reports = Reports()
    lease = a_lease(reports)
    lease.note(Progress(1))
    reports.put_back(reports.take(100.0))
    assert reports.take(101.0) == [lease]


@pytest.mark.parametrize(
    ("done", "total", "percent"), [(0, 10, 0), (999, 1000, 99), (10, 10, 100), (12, 10, 100), (5, None, None), (5, 0, None)]
)
def test_a_percentage_is_100_when_all_is_done(done: int, total: int | None, percent: int | None) -> None:
    assert percent_of(done, total) == percent


def test_progress_reads_as_a_line() -> None:
    assert in_line(4, 10, 40, "page 4") == "4 of 10 (40 %): page 4"
    assert in_line(40, 100, 40, "page 4") == "40 %: page 4"
    assert in_line(7, None, None, "") == "7"
