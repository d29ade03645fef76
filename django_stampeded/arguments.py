"""What a task's function takes: binds named arguments to its signature, at enqueue and again in the worker.

Pure. How values become JSON is encoding.py, how they come back is decoding.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter
from typing import Any, Optional

from django_stampeded.decoding import Decoder, Misfit, decoder_for, parse, resolved
from django_stampeded.encoding import encode, encode_value, safe_text
from django_stampeded.exceptions import InvalidArguments, InvalidOption

__all__ = ["Signature", "encode", "encode_value", "from_text", "safe_text"]


def from_text(text: str) -> dict[str, Any]:
    """The arguments in the JSON text of a job's `args`, as JSON values.

    Raises InvalidArguments for JSON that Python cannot read, such as 10,000 nested lists from another
    language.

    Example: `from_text('{"path": "a.csv"}') == {"path": "a.csv"}`
    """
    try:
        return parse(text)
    except Misfit as misfit:
        raise InvalidArguments(f"args {misfit.reason}.", argument="args") from None


class Signature:
    """The named parameters of a task's function.

    `takes_context` leaves out the first parameter, which the worker fills. Raises InvalidOption for a
    function that cannot be called with named arguments.
    """

    def __init__(self, task: str, func: Callable[..., Any], *, takes_context: bool) -> None:
        parameters = list(inspect.signature(func).parameters.values())
        if takes_context:
            if not parameters or parameters[0].kind not in _POSITIONAL:
                raise InvalidOption(f"Task {task!r} has takes_context: give its function a first parameter for it.")
            parameters = parameters[1:]
        for each in parameters:
            if each.kind is Parameter.POSITIONAL_ONLY and each.default is Parameter.empty:
                raise InvalidOption(
                    f"Task {task!r} has the positional-only parameter {each.name!r}: "
                    "remove the /, for arguments are passed by name."
                )
        self.task = task
        self.func = func
        self.named = {each.name: each for each in parameters if each.kind in _NAMED}
        self.names = frozenset(self.named)
        self.required = frozenset(name for name, each in self.named.items() if each.default is Parameter.empty)
        self.rest = next((each.name for each in parameters if each.kind is Parameter.VAR_KEYWORD), None)

    def check(self, args: Mapping[str, Any]) -> None:
        """Raises InvalidArguments, which names them, when arguments are missing or unknown."""
        given = args.keys()
        if self.required <= given and (given <= self.names or self.rest):
            return
        missing = sorted(self.required - given)
        if missing:
            raise InvalidArguments(f"Task {self.task!r} is missing {_listed(missing)}: pass it by name.", argument=missing[0])
        unknown = sorted(safe_text(str(name), 64) for name in given - self.names)
        close = get_close_matches(unknown[0], self.names, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"it takes {_listed(self.named) or 'none'}."
        raise InvalidArguments(f"Task {self.task!r} has no parameter {_listed(unknown)}: {advice}", argument=unknown[0])

    def decode(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function's annotations want them, from their JSON values.

        Raises InvalidArguments with the name and the reason when one is missing, unknown or does not fit.
        """
        self.check(args)
        decoders = self.decoders
        rest = decoders.get(self.rest or "")
        decoded = {}
        for name, value in args.items():
            try:
                decoded[name] = decoders.get(name, rest)(value)  # type: ignore[misc]  # check() knows each name
            except Misfit as misfit:
                where = f"args.{name}{misfit.path}"
                reason = f"Task {self.task!r}: {where} {misfit.reason}."
                raise InvalidArguments(reason, argument=where) from misfit.__cause__
        return decoded

    @functools.cached_property
    def decoders(self) -> dict[str, Decoder]:
        """The decoder of each parameter, made when first needed: then all that annotations name is imported.

        Raises InvalidArguments for an annotation that does not resolve or that no JSON value fits.
        """
        decoders = {}
        for name, hint in self.hints.items():
            try:
                decoders[name] = decoder_for(hint)
            except Misfit as misfit:
                raise InvalidArguments(f"Task {self.task!r}: parameter {name!r} {misfit.reason}.", argument=name) from None
        return decoders

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """The annotation of each parameter, Any where it has none. Raises InvalidArguments for one that does not resolve."""
        known = [*self.named, *([self.rest] if self.rest else [])]
        try:
            found = resolved(inspect.unwrap(self.func), known)
        except Misfit as misfit:
            raise InvalidArguments(f"Task {self.task!r} {misfit.reason}.") from None
        hints = {}
        for name in known:
            hints[name] = found.get(name, Any)
            if name in self.named and self.named[name].default is None:
                hints[name] = Optional[hints[name]]  # noqa: UP045  # a hint that is a text has no |
        return hints


_POSITIONAL = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
_NAMED = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
