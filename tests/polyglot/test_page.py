"""The page on other languages shows the programs that are tested, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "how-to" / "other-languages.md"


def blocks() -> list[str]:
    return re.findall(r"^```(?:js|sql)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("program", ["node/worker.mjs", "node/enqueue.mjs", "psql/worker.sql", "psql/enqueue.sql"])
def test_the_page_shows_the_program_as_it_is_run(program):
    assert (HERE / program).read_text() in blocks()


def test_the_lock_file_names_no_host():
    assert "resolved" not in (HERE / "node" / "package-lock.json").read_text()


@pytest.mark.django_db(transaction=True)
def test_the_unique_insert_of_the_page_writes_one_job(run_psql):
    (insert,) = (block for block in blocks() if "ON CONFLICT" in block)
    first = run_psql("-c", insert).strip()
    assert len(first) == 36
    assert run_psql("-c", insert).strip() == ""
