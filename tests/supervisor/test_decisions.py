"""What the supervisor decides and what it reads, without processes: the board, the pace of restarts, when to retire."""

from __future__ import annotations

import os
import socket
import uuid

import pytest

from django_stampeded.process import board as codes
from django_stampeded.process.board import MOST_IDS, SLOTS, Board, failed_as, kind_of
from django_stampeded.process.line import MARK, Child
from django_stampeded.process.retirement import Retirement, resident_mib
from django_stampeded.states import FailureKind
from django_stampeded.supervisor.child import exit_status, how_it_ended
from django_stampeded.supervisor.pacing import LONGEST_S, Pacing


@pytest.fixture
def boards():
    """A parent's board and its child's."""
    parent = Board.create()
    child = Board(os.dup(parent.fd))
    yield parent, child
    child.close()
    parent.close()


def test_the_parent_sees_what_its_child_started_until_that_is_recorded(boards):
    parent, child = boards
    first, second = uuid.uuid4(), uuid.uuid4()
    records = [child.start(first), child.start(second)]
    assert parent.records() == {first: codes.STARTED, second: codes.STARTED}
    child.end(records[0], codes.COMPLETED)
    assert parent.records() == {first: codes.COMPLETED, second: codes.STARTED}
    child.free(records[0])
    assert parent.records() == {second: codes.STARTED}


def test_a_board_that_is_full_lets_jobs_run_unseen(boards):
    parent, child = boards
    assert all(child.start(uuid.uuid4()) > 0 for _ in range(SLOTS))
    assert child.start(uuid.uuid4()) == -1
    assert len(parent.records()) == SLOTS


def test_a_board_keeps_the_latest_registrations(boards):
    parent, child = boards
    assert parent.is_settled, "whoever never registered has claimed nothing"
    ids = [uuid.uuid4() for _ in range(300)]
    for worker_id in ids:
        child.register(worker_id)
    assert not parent.is_settled
    assert set(parent.worker_ids) == set(ids[-MOST_IDS:])
    child.leave()
    assert parent.is_settled
    assert not parent.ended_orderly
    child.end_orderly()
    assert parent.ended_orderly


@pytest.mark.parametrize("kind", FailureKind)
def test_each_kind_of_failure_has_its_code(kind):
    assert kind_of(failed_as(kind)) is kind
    assert failed_as(kind) > codes.PUT_OFF
    assert kind_of(codes.STARTED) is None


def test_the_first_death_is_made_good_at_once_and_quick_ones_later_and_later():
    pacing = Pacing()
    assert [pacing.died(1.0) for _ in range(5)] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert pacing.in_trouble
    assert max(pacing.died(1.0) for _ in range(100)) == LONGEST_S
    assert not pacing.recovered(59)
    assert pacing.recovered(61)
    assert not pacing.recovered(61), "told once"
    assert pacing.died(1.0) == 0.0


def test_a_death_after_a_long_life_is_the_first_again():
    pacing = Pacing()
    for _ in range(4):
        pacing.died(1.0)
    assert pacing.died(3600.0) == 0.0
    assert not pacing.in_trouble


def test_a_process_asks_for_its_successor_early_and_runs_no_job_too_many():
    retirement = Retirement(max_jobs=100, has_successor=True)
    assert not retirement.wants(79)
    assert retirement.wants(80)
    assert not retirement.wants(81), "once"
    assert not retirement.is_due(99)
    assert retirement.is_due(100)


def test_a_process_without_successor_goes_when_it_has_run_all_its_jobs():
    retirement = Retirement(max_jobs=100)
    assert not retirement.wants(99)
    assert retirement.wants(100)
    assert retirement.is_due(100)


def test_a_process_that_is_too_large_waits_a_little_for_its_successor():
    now = [0.0]
    retirement = Retirement(max_rss=10, has_successor=True, clock=lambda: now[0], memory=lambda: 11.0)
    assert retirement.wants(0)
    assert not retirement.is_due(0)
    now[0] = 60.0
    assert retirement.is_due(0)


def test_a_lost_thread_is_a_reason_only_where_somebody_takes_over():
    assert Retirement(has_successor=True).wants(1, stuck=1)
    assert not Retirement().wants(1, stuck=1)


def test_the_memory_in_use_is_told_in_mebibytes():
    assert 5 < resident_mib() < 50_000


def test_the_end_of_a_process_is_told_in_words_and_as_a_shell_does():
    assert how_it_ended(3) == "exited with status 3"
    assert how_it_ended(-11) == "was ended by signal 11 (SIGSEGV)"
    assert "memory" in how_it_ended(-9)
    assert how_it_ended(-200) == "was ended by signal 200 (unknown)"
    assert (exit_status(3), exit_status(-9)) == (3, 137)


def test_what_a_child_starts_is_no_child(monkeypatch):
    parent = Board.create()
    ours, theirs = socket.socketpair()
    monkeypatch.setenv(MARK, f'{{"number": 2, "board": {os.dup(parent.fd)}, "line": {theirs.detach()}}}')
    child = Child.adopt()
    assert child is not None
    assert child.number == 2
    assert MARK not in os.environ
    assert not os.get_inheritable(child.board.fd)
    assert Child.adopt() is None
    child.board.close()
    parent.close()
    ours.close()
