"""A loop outlives whatever goes wrong in it, and is never silent about it."""

from __future__ import annotations

import logging

import psycopg
import pytest

from django_stampeded.exceptions import SchemaMismatch
from django_stampeded.process import loop as loop_module
from django_stampeded.process.loop import Loop
from django_stampeded.process.outage import Outage
from tests.worker.support import eventually, real_transactions


class Failing(Loop):
    """Fails as told, then works."""

    def __init__(self, *errors: BaseException) -> None:
        super().__init__("test", "default", Outage())
        self.errors = list(errors)
        self.good = 0
        self.closed = False

    def cycle(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.good += 1
        self.wake.wait(0.01)

    def closing(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(loop_module, "delay", lambda failures: 0.001)


def ran(loop: Failing) -> Failing:
    loop.start()
    eventually(lambda: loop.good > 2)
    loop.stop()
    loop.join(10)
    assert not loop.is_alive()
    assert loop.closed
    return loop


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        SystemExit(1),
        KeyboardInterrupt(),
        MemoryError(),
        psycopg.errors.UndefinedTable("gone"),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_nobody_expected_is_logged_and_survived(error, caplog):
    ran(Failing(error))
    assert sum("did not expect" in record.message for record in caplog.records) == 1
    assert caplog.records[0].exc_info


def test_the_same_error_over_and_over_is_logged_once(caplog):
    ran(Failing(*[ValueError("a bug") for _ in range(200)]))
    assert len(caplog.records) == 1


class Asking(Failing):
    """Fails as told, then asks the database something."""

    def cycle(self) -> None:
        super().cycle()
        self.link.cursor().execute("SELECT 1")


@real_transactions
def test_lost_connections_are_told_once_and_their_end_once(caplog):
    with caplog.at_level(logging.INFO):
        ran(Asking(*[psycopg.OperationalError("refused") for _ in range(200)]))
    assert [record.levelname for record in of_the_loop(caplog)] == ["WARNING", "INFO"]


def of_the_loop(caplog):
    """What the loop said; a job that an earlier test gave up may still have a word to say."""
    return [record for record in caplog.records if record.name.startswith("django_stampeded.process")]


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55000", "55P03", "57014"])
def test_a_passing_conflict_is_tried_again_without_a_word(caplog, sqlstate):
    with caplog.at_level(logging.INFO):
        ran(Failing(*[psycopg.errors.lookup(sqlstate)("busy") for _ in range(20)]))
    assert of_the_loop(caplog) == []


def test_a_round_that_asks_the_database_for_nothing_does_not_say_that_it_is_back(caplog):
    with caplog.at_level(logging.INFO):
        loop = ran(Failing(psycopg.OperationalError("away")))
    assert loop.outage.ongoing
    assert "again after" not in caplog.text


def test_a_database_that_will_not_do_ends_the_loop_with_its_reason():
    loop = Failing(SchemaMismatch("run `manage.py migrate stampeded`."))
    loop.start()
    loop.join(10)
    assert not loop.is_alive()
    assert isinstance(loop.refusal, SchemaMismatch)


def test_a_stop_ends_a_long_back_off(monkeypatch):
    monkeypatch.setattr(loop_module, "delay", lambda failures: 600.0)
    loop = Failing(psycopg.OperationalError("refused"))
    loop.start()
    eventually(lambda: loop.failures)
    loop.stop()
    loop.join(10)
    assert not loop.is_alive()


def test_a_ring_that_means_work_does_not_undo_a_back_off():
    loop = Failing()
    loop.wake.ring()
    import time

    begin = time.monotonic()
    loop.pause(0.2)
    assert time.monotonic() - begin >= 0.2
