"""stampeded_checkpoint: storing a cursor, counting it, and warning while it grows large."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql.client import SqlClient
from tests.sql.test_constraints import text_of

KIB = 1024


def test_a_checkpoint_is_stored_counted_and_beats(sql: SqlClient) -> None:
    job = sql.started()
    before = sql.job(job.id)
    assert sql.checkpoint(job, {"row": 1}) == 1
    assert sql.checkpoint(job, {"row": 2}) == 2
    after = sql.job(job.id)
    assert (after.checkpoint, after.checkpoint_seq) == ({"row": 2}, 2)
    assert after.heartbeat_at > before.heartbeat_at
    assert job.claimed_at < after.checkpoint_at <= sql.now()
    assert (after.state, after.attempt) == ("executing", 1)


@pytest.mark.parametrize("state", [{}, [], [1, "x"], "text", 17, True, {"a": {"b": [None]}}])
def test_any_json_can_be_a_checkpoint(sql: SqlClient, state: Any) -> None:
    job = sql.started()
    assert sql.checkpoint(job, state) == 1
    assert sql.job(job.id).checkpoint == state


def test_the_count_goes_on_over_attempts(sql: SqlClient) -> None:
    job = sql.started()
    sql.checkpoint(job, {"row": 1})
    sql.fail(job)
    (job,) = sql.claim()
    assert (job.checkpoint, job.checkpoint_seq) == ({"row": 1}, 1)
    assert sql.checkpoint(job, {"row": 2}) == 2


def test_a_count_at_its_end_still_stores_the_checkpoint(sql: SqlClient) -> None:
    job = sql.started(checkpoint_seq=2**31 - 1)
    assert sql.checkpoint(job, {"row": 2}) is not None
    assert sql.job(job.id).checkpoint == {"row": 2}


def test_a_checkpoint_commits_or_vanishes_with_the_work(sql: SqlClient) -> None:
    job = sql.started()
    with sql.transaction() as transaction:
        sql.checkpoint(job, {"row": 1})
        raise psycopg.Rollback(transaction)
    after = sql.job(job.id)
    assert (after.checkpoint, after.checkpoint_seq) == (None, 0)


def test_a_checkpoint_above_64_kibibytes_is_refused_and_the_one_before_stands(
    sql: SqlClient,
) -> None:
    job = sql.started()
    sql.checkpoint(job, {"row": 1})
    with pytest.raises(psycopg.Error):
        sql.checkpoint(job, {"x": text_of(65 * KIB)})
    assert sql.job(job.id).checkpoint == {"row": 1}
    sql.checkpoint(job, {"x": text_of(60 * KIB)})


def warnings(sql: SqlClient, job: Any, *sizes: int, letter: str | None = None) -> list[bool]:
    """Whether each checkpoint, of that many bytes, brought a warning."""
    found = []
    for size in sizes:
        sql.notices.clear()
        sql.checkpoint(job, {"x": letter * size if letter else text_of(size)})
        found.append(bool(sql.warnings))
    return found


def test_it_warns_while_it_is_past_8_kibibytes_and_growing(sql: SqlClient) -> None:
    sizes = (2 * KIB, 7 * KIB, 9 * KIB, 10 * KIB, 10 * KIB, 9 * KIB, 4 * KIB, 6 * KIB, 20 * KIB)
    assert warnings(sql, sql.started(), *sizes) == [
        False, False, True, True, False, False, False, False, True,
    ]  # fmt: skip


def test_a_first_checkpoint_is_no_growth(sql: SqlClient) -> None:
    assert warnings(sql, sql.started(), 20 * KIB, 20 * KIB, 21 * KIB) == [False, False, True]


def test_what_counts_is_the_logical_size_not_the_compressed_one(sql: SqlClient) -> None:
    assert warnings(sql, sql.started(), 9 * KIB, 10 * KIB, letter="x") == [False, True]


def test_no_log_line_of_a_warning_shows_what_the_checkpoint_holds(sql: SqlClient) -> None:
    job = sql.started()
    sql.checkpoint(job, {"token": "secret" + text_of(9 * KIB)})
    sql.notices.clear()
    sql.checkpoint(job, {"token": "secret" + text_of(10 * KIB)})
    assert sql.warnings and not any("secret" in warning for warning in sql.warnings)
