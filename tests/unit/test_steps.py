"""A step's record: what the attempts before have left, what this one writes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from django_stampeded.exceptions import Discard, InvalidArguments, InvalidStep
from django_stampeded.step_record import state_of, with_state
from django_stampeded.worker.steps import Step, Steps


class Job:
    """A job in memory, attempt after attempt."""

    def __init__(self, **entries: Any) -> None:
        self.checkpoint: Any = {"stampeded_steps": entries}
        self.writes: list[tuple[str, Any]] = []
        self.again()

    def again(self) -> Job:
        self.steps = Steps(self.checkpoint, self._write, lambda: self.checkpoint)
        return self

    def _write(self, name: str, entry: Any) -> None:
        self.writes.append((name, entry))
        entries = {**self.checkpoint["stampeded_steps"], name: entry}
        self.checkpoint = {**self.checkpoint, "stampeded_steps": entries}

    def open(self, name: str, cursor: Any = 0) -> Step:
        return Step(self.steps, name, cursor)

    @property
    def entries(self) -> dict[str, Any]:
        return self.checkpoint["stampeded_steps"]


def test_a_step_runs_once_over_all_attempts_and_its_result_is_given_back() -> None:
    job, calls = Job(), []
    assert job.steps.run("charge", lambda: calls.append(1) or {"at": (1, 2)}) == {"at": [1, 2]}
    assert job.again().steps.run("charge", lambda: calls.append(2)) == {"at": [1, 2]}
    assert calls == [1]


def test_a_step_that_failed_runs_again_in_the_same_attempt_and_in_the_next() -> None:
    job = Job()
    for attempt in (job, job, job.again()):
        with pytest.raises(ZeroDivisionError):
            attempt.steps.run("charge", lambda: 1 // 0)
    assert job.steps.run("charge", lambda: 1) == 1
    assert job.writes == [("charge", {"done": True, "result": 1})]


@pytest.mark.parametrize("result", ["x" * 8192, float("nan"), {1}, "a\x00b"])
def test_a_result_that_cannot_be_kept_discards_the_job_by_the_step_s_name(result: Any) -> None:
    job = Job()
    with pytest.raises(Discard, match='the result of step "charge"'):
        job.steps.run("charge", lambda: result)
    assert job.writes == []


def test_a_result_may_take_8_kibibytes() -> None:
    assert len(Job().steps.run("charge", lambda: "x" * 8190)) == 8190


def test_two_steps_of_one_name_are_refused() -> None:
    job = Job()
    job.steps.run("charge", int)
    with pytest.raises(InvalidStep, match='"charge" ran in this attempt already'):
        job.steps.run("charge", int)
    with pytest.raises(InvalidStep, match="already"), job.open("charge"):
        pass


@pytest.mark.parametrize("name", ["", "x" * 256, 5, None])
def test_a_name_is_a_text_of_1_to_255_characters(name: Any) -> None:
    with pytest.raises(InvalidStep, match="1 to 255"):
        Job().steps.run(name, int)


@pytest.mark.parametrize("name", ["a\x00b", "\ud800"])
def test_a_name_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(InvalidArguments, match="the name of a step"):
        Job().steps.run(name, int)


def test_a_step_goes_on_at_its_cursor() -> None:
    job = Job()
    with pytest.raises(ZeroDivisionError), job.open("mail") as step:
        step.advance(1)
        step.advance(2)
        raise ZeroDivisionError
    with job.again().open("mail") as step:
        assert (step.cursor, step.finished) == (2, False)
        step.advance(3)
    assert job.entries == {"mail": {"cursor": 3, "done": True}}


def test_the_block_of_a_finished_step_sees_its_last_cursor_and_writes_nothing() -> None:
    job = Job(mail={"cursor": 7, "done": True})
    with job.open("mail") as step:
        assert (step.cursor, step.finished) == (7, True)
        assert list(range(7)[step.cursor :]) == []
    assert job.writes == []


def test_a_block_that_goes_beyond_a_finished_step_has_that_on_record() -> None:
    job = Job(mail={"cursor": 7, "done": True})
    with job.open("mail") as step:
        step.advance(8)
    assert job.entries["mail"] == {"cursor": 8, "done": True}


def test_a_step_goes_over_the_rows_that_are_left() -> None:
    job, seen = Job(), []
    with pytest.raises(ZeroDivisionError), job.open("mail") as step:
        for row in step.over("abcde"):
            seen.append(row)
            if row == "c":
                raise ZeroDivisionError
    assert job.entries["mail"] == {"cursor": 2}
    with job.again().open("mail") as step:
        seen += step.over(iter("abcde"))
    assert seen == list("abccde")
    with job.again().open("mail") as step:
        assert list(step.over("abcdefgh")) == []


def test_rows_that_have_become_fewer_since_are_done() -> None:
    job = Job(mail={"cursor": 9})
    with job.open("mail") as step:
        assert list(step.over([1, 2, 3])) == []
    assert job.entries["mail"] == {"cursor": 9, "done": True}


@pytest.mark.parametrize("cursor", ["k", -1, None, True, 1.5])
def test_a_cursor_that_is_no_number_of_rows_is_refused_where_rows_are_counted(cursor: Any) -> None:
    with pytest.raises(InvalidStep, match="no number of rows"), Job().open("mail", cursor) as step:
        list(step.over("abc"))


def test_of_every_so_many_advances_one_writes_and_the_end_writes_the_last() -> None:
    job = Job()
    with job.open("mail") as step:
        for _ in step.over(range(25), every=10):
            pass
    assert [entry["cursor"] for _, entry in job.writes] == [10, 20, 25]


def test_a_step_is_advanced_in_its_block_alone() -> None:
    job = Job()
    with pytest.raises(InvalidStep, match="not open"):
        job.open("mail").advance(1)
    with pytest.raises(InvalidArguments, match='the cursor of step "mail"'), job.open("mail") as step:
        step.advance({1})


def test_a_renamed_or_removed_step_stays_on_record_and_the_new_one_runs() -> None:
    job = Job(old={"done": True, "result": 1})
    assert job.steps.run("new", lambda: 2) == 2
    assert job.entries == {"old": {"done": True, "result": 1}, "new": {"done": True, "result": 2}}


def test_a_function_s_finished_step_is_none_with_a_cursor() -> None:
    job = Job(mail={"done": True, "result": None})
    with pytest.raises(InvalidStep, match="another name"), job.open("mail"):
        pass


def test_what_another_program_adds_to_an_entry_stays_in_it() -> None:
    job = Job(mail={"cursor": 1, "host": "a"})
    with job.open("mail") as step:
        step.advance(2)
    assert job.entries["mail"] == {"cursor": 2, "host": "a", "done": True}


def test_an_entry_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidStep, match="no JSON object"):
        Job(mail=5).steps.run("mail", int)


@pytest.mark.parametrize("state", [None, 5, [1], {"cursor": 1}, {"stampeded_steps": 5}])
def test_a_checkpoint_without_steps_is_its_own_state(state: Any) -> None:
    assert state_of(state) == state
    assert with_state(state, {"cursor": 2}) == {"cursor": 2}


def test_a_plain_checkpoint_stands_beside_the_steps() -> None:
    record = {"stampeded_steps": {"a": {"done": True}}, "state": {"cursor": 1}, "more": 1}
    assert state_of(record) == {"cursor": 1}
    assert with_state(record, [2]) == {**record, "state": [2]}
    assert state_of({"stampeded_steps": {}}) is None
