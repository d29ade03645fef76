"""What the example's reader makes of CSV files, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from example_project.imports import csv_file
from example_project.imports.csv_file import CsvProblem


@pytest.fixture
def written(tmp_path: Path):
    def write(content: str | bytes) -> Path:
        path = tmp_path / "rows.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_the_airports_are_found_and_whole():
    rows = list(csv_file.read(csv_file.airports()))
    assert len(rows) == 3_376
    assert rows[0].label == "Thigpen"
    assert rows[0].group == "MS"
    assert rows[0].latitude == pytest.approx(31.95376472)
    assert all(row.longitude is not None for row in rows)


def test_a_limit_ends_the_reading_early(written):
    rows = list(csv_file.read(written("name\na\nb\nc\n"), limit=2))
    assert [row.label for row in rows] == ["a", "b"]


def test_a_file_without_coordinates_or_groups_is_read_too(written):
    (row,) = csv_file.read(written("product,price\nlamp,12\n"))
    assert (row.label, row.group, row.latitude, row.longitude) == ("lamp", "all rows", None, None)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_separator_is_the_one_that_the_header_uses(written, delimiter):
    content = f"name{delimiter}state{delimiter}lat{delimiter}lon\nA{delimiter}TX{delimiter}1{delimiter}2\n"
    (row,) = csv_file.read(written(content))
    assert (row.label, row.group, row.latitude, row.longitude) == ("A", "TX", 1.0, 2.0)


@pytest.mark.parametrize("latitude", ["", "north", "91", "nan", "inf"])
def test_a_row_with_an_impossible_latitude_counts_as_not_located(written, latitude):
    (row,) = csv_file.read(written(f"name,lat,lon\nA,{latitude},2\n"))
    assert (row.latitude, row.longitude) == (None, None)


def test_a_byte_order_mark_and_quoted_line_breaks_are_understood(written):
    (row,) = csv_file.read(written('\ufeffname,note\n"A, B","one\ntwo"\n'))
    assert row.cells == {"name": "A, B", "note": "one\ntwo"}


def test_words_for_nothing_count_as_gaps():
    assert csv_file.gaps({"a": "NA", "b": " ", "c": "0", "d": "n/a"}) == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: name a file with a header and at least one row"),
        ("name,state\n", "has no rows below its header"),
        ("name,name\na,b\n", "has two columns named name: rename one"),
        ("name,\na,b\n", "has no complete header"),
        ("name,state\na,b\na\n", "line 3, has 1 fields where the header has 2: mend that line"),
        ("name\na\0b\n", "line 2, has a NUL character: remove it"),
        (b"name\n\xff\xfe\n", "is not UTF-8 text: save it as UTF-8"),
        ("name\n" + "x" * 200_000 + "\n", "is not a CSV file"),
    ],
)
def test_a_bad_file_is_refused_with_one_sentence_that_says_what_to_do(written, content, message):
    with pytest.raises(CsvProblem, match=message) as raised:
        csv_file.count(written(content))
    assert str(raised.value).endswith(".") and "\n" not in str(raised.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(CsvProblem, match="There is no file"):
        csv_file.count(tmp_path / "absent.csv")
    with pytest.raises(CsvProblem, match="is a folder"):
        csv_file.count(tmp_path)
