"""The steps of a job: what each attempt finds done, and what it records.

Pure but for the `write` and `read` that a JobContext hands in. The form of the record is step_record.py's.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from django_stampeded.encoding import encode_value
from django_stampeded.exceptions import Discard, InvalidArguments, InvalidStep
from django_stampeded.step_record import entries

MAX_RESULT_BYTES = 8192
LONGEST_NAME = 255

Entry = dict[str, Any]
Row = TypeVar("Row")


class Steps:
    """The steps of one attempt.

    Args:
        checkpoint: what the attempts before have left.
        write: stores the entry of a step; raises where that can't be done.
        read: the checkpoint as it is stored now.
    """

    def __init__(self, checkpoint: Any, write: Callable[[str, Entry], None], read: Callable[[], Any]) -> None:
        self.before = entries(checkpoint)
        self._write = write
        self._read = read
        self._names: set[str] = set()
        self._done: set[str] = set()

    def enter(self, name: str) -> Entry:
        """Take the name of a step; returns the entry that an attempt before has left for it, empty where none has.

        Raises InvalidStep for a name that is none or that is taken.
        """
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise InvalidStep(f"The name of a step is a text of 1 to {LONGEST_NAME} characters.")
        if name in self._names and not self._is_rolled_back(name):
            raise InvalidStep(
                f'Step "{name}" ran in this attempt already: give each step a name of its own, in a loop one that tells the '
                "rounds apart, or use one step with a cursor."
            )
        entry = self.before.get(_kept(name, "the name of a step"), {})
        if not isinstance(entry, dict):
            raise InvalidStep(f'The record of step "{name}" is no JSON object: correct it, or discard the job.')
        self._names.add(name)
        return entry

    def _is_rolled_back(self, name: str) -> bool:
        """Whether a step was done in this attempt and its record went with the transaction around it."""
        if name not in self._done or entries(self._read()).get(name, {}).get("done"):
            return False
        self._done.discard(name)
        return True

    def leave(self, name: str) -> None:
        """A step has failed: its name is free, for the job may try again by itself."""
        self._names.discard(name)

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """What `call` returns, now or in the attempt that finished the step."""
        entry = self.enter(name)
        if entry.get("done"):
            return entry.get("result")
        try:
            return self._finish(name, call())
        except BaseException:
            self.leave(name)
            raise

    async def arun(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """`run` for async jobs."""
        entry = await sync_to_async(self.enter)(name)
        if entry.get("done"):
            return entry.get("result")
        try:
            return await sync_to_async(self._finish)(name, await call())
        except BaseException:
            self.leave(name)
            raise

    def _finish(self, name: str, result: Any) -> Any:
        """Keep the result of a step; returns it as later attempts will get it."""
        try:
            kept = _kept(result, f'the result of step "{name}"')
        except InvalidArguments as exc:  # the work is done: another attempt would only do it once more
            raise Discard(str(exc)) from None
        self.store(name, {"done": True, "result": kept})
        return kept

    def store(self, name: str, entry: Entry) -> None:
        """Record how far a step is."""
        self._write(name, entry)
        if entry.get("done"):
            self._done.add(name)


def _kept(value: Any, path: str) -> Any:
    """A value as JSON gives it back. Raises InvalidArguments for one that JSON can't hold, or too large a one."""
    return json.loads(encode_value(value, path=path, limit=MAX_RESULT_BYTES))


class Step:
    """A step with a cursor: `with job.step("mail", cursor=0) as step:`. Leaving the block without an exception finishes it.

    The block runs in later attempts too, for Python can't skip it, and finds the `cursor` where it was: after the last row,
    where there is nothing left to do. `over` and `finished` are for blocks that do more than go through rows.
    """

    __slots__ = ("name", "_steps", "_entry", "_first", "_is_open", "_unwritten")

    def __init__(self, steps: Steps, name: str, cursor: Any) -> None:
        self.name = name
        self._steps = steps
        self._first = self._checked(cursor)
        self._entry: Entry = {}
        self._is_open = False
        self._unwritten = 0

    @property
    def cursor(self) -> Any:
        """How far the step is: the latest that `advance` was given, in any attempt; at first the one to begin with."""
        return self._entry.get("cursor", self._first)

    @property
    def finished(self) -> bool:
        """Whether an attempt before has finished the step."""
        return bool(self._entry.get("done"))

    def advance(self, cursor: Any, *, every: int = 1) -> None:
        """Store how far the step is; inside `atomic()` it commits with the work.

        Args:
            cursor: any value that JSON can hold, at most 8 KiB of it.
            every: of so many calls only one writes. The end of the step writes the last one.

        Raises InvalidArguments for another cursor, InvalidStep outside of the `with`, LeaseLost as `JobContext.checkpoint`.

        Example: `step.advance(step.cursor + 1)`
        """
        if not self._is_open:
            raise InvalidStep(f'Step "{self.name}" is not open: advance it within its `with`.')
        self._entry = {**self._entry, "cursor": self._checked(cursor)}
        self._unwritten += 1
        if self._unwritten >= every:
            self._store()

    async def aadvance(self, cursor: Any, *, every: int = 1) -> None:
        """`advance` for async jobs."""
        await sync_to_async(self.advance)(cursor, every=every)

    def over(self, rows: Iterable[Row], *, every: int = 1) -> Iterator[Row]:
        """The rows that are left, the cursor being how many are done; after each it advances. None in a finished step.

        Args:
            rows: in the same order in each attempt; a list or a QuerySet is sliced, of others the first ones are skipped.
            every: as for `advance`; of so many rows some may come again in the next attempt.

        Raises InvalidStep for a cursor that is no number of rows.

        Example: `for user in step.over(User.objects.order_by("pk")): welcome(user)`
        """
        if self.finished:
            return
        start = self.cursor
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            raise InvalidStep(
                f'The cursor of step "{self.name}" is no number of rows: use `advance` with a cursor of your own.'
            )
        left = rows[start:] if hasattr(rows, "__getitem__") and not isinstance(rows, Mapping) else islice(rows, start, None)
        for number, row in enumerate(left, start + 1):
            yield row
            self.advance(number, every=every)

    def __enter__(self) -> Step:
        entry = self._steps.enter(self.name)
        if entry.get("done") and "cursor" not in entry:
            raise InvalidStep(
                f'Step "{self.name}" was finished without a cursor, as by a function: give the one with a cursor another name.'
            )
        self._entry = entry
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: object = None, traceback: object = None) -> None:
        self._is_open = False
        if kind is not None:
            self._steps.leave(self.name)
        elif self._unwritten or not self.finished:
            self._entry = {**self._entry, "cursor": self.cursor, "done": True}
            self._store()

    async def __aenter__(self) -> Step:
        return await sync_to_async(self.__enter__)()

    async def __aexit__(self, kind: type[BaseException] | None, exc: object = None, traceback: object = None) -> None:
        await sync_to_async(self.__exit__)(kind)

    def _checked(self, cursor: Any) -> Any:
        return _kept(cursor, f'the cursor of step "{self.name}"')

    def _store(self) -> None:
        self._steps.store(self.name, self._entry)
        self._unwritten = 0
