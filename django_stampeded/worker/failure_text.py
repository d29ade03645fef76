"""The text that is kept of an exception: its chain and traceback, whatever it holds, in a bounded size.

Pure, and written so that it can't fail: an exception may refuse to be printed, hold NUL bytes or half a surrogate
pair, or print as fifty megabytes, and its failure has to go on record all the same.

The first line is the exception itself, for that is what the shorter records keep. Nothing in the text differs between
two workers but numbers and ids, or the same error would count as another on each machine.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import TracebackType

LONGEST = 4000
"""Characters kept in all, as many as the column takes."""
LONGEST_MESSAGE = 1000
LONGEST_LINE = 300
_CHAIN = 5
_INNERMOST = 8
_OUTERMOST = 2
_INNERMOST_OF_MEMBER = 2


def describe(exc: BaseException) -> str:
    """The text of `exc`, at most LONGEST characters, that PostgreSQL will store.

    Example: `describe(ValueError("no such file")).startswith("ValueError: no such file")`
    """
    parts = [headline(exc)]
    for link, relation in _chain(exc):
        if relation:
            parts.append(f"{relation}: {headline(link)}")
        parts.extend(_notes(link))
        parts.extend(_frames(link.__traceback__))
        parts.extend(_members(link))
    return clean("\n".join(parts))[:LONGEST]


def headline(exc: BaseException) -> str:
    """The exception's type and message on one record, cut to a readable length."""
    name = type(exc).__qualname__
    if type(exc).__module__ not in ("builtins", "__main__"):
        name = f"{type(exc).__module__}.{name}"
    try:
        message = str(exc)[:LONGEST_MESSAGE]
    except BaseException as problem:
        message = f"<not printable: {type(problem).__name__}>"
    return clean(f"{name}: {message}" if message else name)


def clean(text: str) -> str:
    """The same text with what PostgreSQL can't store (NUL, lone surrogates) written as an escape.

    Example: `clean("a\\x00b") == "a\\\\x00b"`
    """
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _chain(exc: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exception and those behind it, each with what it was to the one before."""
    seen: set[int] = set()
    link: BaseException | None = exc
    relation = ""
    while link is not None and id(link) not in seen and len(seen) < _CHAIN:
        yield link, relation
        seen.add(id(link))
        if link.__cause__ is not None:
            link, relation = link.__cause__, "caused by"
        elif link.__suppress_context__:
            link = None
        else:
            link, relation = link.__context__, "while handling"


def _frames(top: TracebackType | None) -> list[str]:
    """The lines of a traceback, the outermost and innermost ones where there are many."""
    frames = list(traceback.walk_tb(top))
    left_out = len(frames) - _OUTERMOST - _INNERMOST
    kept = [*frames[:_OUTERMOST], *frames[-_INNERMOST:]] if left_out > 0 else frames
    lines = []
    for frame, number in kept:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {number}, in {code.co_name}'[:LONGEST_LINE])
        source = _source(code.co_filename, number)
        if source:
            lines.append(f"    {source}"[:LONGEST_LINE])
    if left_out > 0:
        lines.insert(2 * _OUTERMOST, f"  ({left_out} frames left out)")
    return lines


def _source(filename: str, number: int) -> str:
    try:
        return traceback.linecache.getline(filename, number).strip()  # type: ignore[attr-defined]
    except Exception:
        return ""  # a source that can't be read must not hide the error


def _notes(exc: BaseException) -> list[str]:
    """What was added to it by add_note()."""
    try:
        notes = getattr(exc, "__notes__", None)
    except BaseException:
        return []  # a class may compute them
    if not isinstance(notes, list | tuple):
        return []
    return [f"  note: {note[:LONGEST_LINE]}" for note in notes[:_CHAIN] if isinstance(note, str)]


def _members(exc: BaseException, depth: int = 1) -> list[str]:
    """The exceptions of a group, groups within it too, each with its notes and where it was raised."""
    if not isinstance(exc, BaseExceptionGroup) or depth > _CHAIN:
        return []
    indent = "  " * depth
    lines = []
    for member in exc.exceptions[:_CHAIN]:
        inner = [*_notes(member), *_frames(member.__traceback__)[-2 * _INNERMOST_OF_MEMBER :]]
        lines += [f"{indent}- {headline(member)}", *(indent + line for line in inner), *_members(member, depth + 1)]
    left_out = len(exc.exceptions) - _CHAIN
    return [*lines, f"{indent}({left_out} more left out)"] if left_out > 0 else lines
