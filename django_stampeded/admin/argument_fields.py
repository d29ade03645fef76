"""Form fields for arguments: a JSON object as a whole, or one field for each parameter of a task's function.

What they make is JSON-able; whether a task takes it is checked by its signature (actions.check_arguments).
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_stampeded import insights
from django_stampeded.arguments import Signature
from django_stampeded.conf import settings

WHOLE = insights.Limits(text=10**7, items=10**6, depth=10**3)
"""Nothing cut: what somebody edits has to be all of it."""
PREFIX = "arg_"
REST = "more_arguments"


class _JSONField(forms.JSONField):
    """JSON as somebody typed it: what can't be read is refused, and shown again as it was typed."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value)
        except (RecursionError, ValueError):  # nested too deep, or a number of thousands of digits
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        return None if data is None else InvalidJSONInput(data.encode("utf-8", "replace").decode())


class ArgumentsField(_JSONField):
    """A JSON object, shown over several lines."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

    def clean(self, value: Any) -> Any:
        given = super().clean(value)
        if given in (None, ""):
            return {}
        if not isinstance(given, dict):
            raise forms.ValidationError(gettext("Arguments are a JSON object, such as {“order”: 7}."))
        return given


class DateInput(forms.DateInput):
    input_type = "date"


class DateTimeInput(forms.DateTimeInput):
    input_type = "datetime-local"


class _ValueField(_JSONField):
    """Any JSON value; an empty field is no value."""

    empty_values = [None, ""]


def restored(redactor: insights.Redactor, edited: Any, stored: Any) -> Any:
    """The arguments that somebody meant who edited what was shown of those stored, with what is hidden put back.

    Raises ValidationError where that can't be done, since a job would run with the mark in place of its secret.
    """
    given = redactor.restore(edited, stored)
    if redactor.leaves_hidden(given, stored):
        raise forms.ValidationError(
            gettext("What is hidden can’t be put back, as the text or list around it was changed: write its value instead.")
        )
    return given


def fields_of(signature: Signature) -> dict[str, forms.Field]:
    """A field for each parameter, by PREFIX and its name, and REST for a function that takes any others."""
    found = {f"{PREFIX}{name}": _field(signature, name, signature.hints[name]) for name in signature.named}
    if signature.rest:
        found[REST] = ArgumentsField(label=_("more arguments"), required=False, initial=dict, widget=_lines(3))
    return found


def arguments_of(signature: Signature, cleaned: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the cleaned fields mean; those left empty that have a default are left out."""
    args = dict(cleaned.get(REST) or {})
    for name, parameter in signature.named.items():
        value = cleaned.get(f"{PREFIX}{name}")
        if value in (None, "") and parameter.default is not Parameter.empty:
            continue
        args[name] = value
    return args


def _field(signature: Signature, name: str, hint: Any) -> forms.Field:
    parameter = signature.named[name]
    default = None if parameter.default is Parameter.empty else parameter.default
    options: dict[str, Any] = {"label": name, "required": name in signature.required}
    if name not in signature.required:
        options["help_text"] = gettext("Left empty, the function’s own default holds.")
    kind, optional = _plain(hint)
    if insights.Redactor(settings.REDACT).is_secret(name) and kind is str:
        return forms.CharField(strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "off"}), **options)
    if kind is bool and not optional:
        return forms.BooleanField(**{**options, "required": False, "help_text": ""}, initial=bool(default))
    if kind in _FIELDS:
        return _FIELDS[kind](**options)
    choices = list(_choices(kind))
    if choices:
        offered = choices if name in signature.required else [("", "—"), *choices]
        return forms.TypedChoiceField(choices=offered, coerce=_coerced({str(value): value for value, _ in choices}), **options)
    options["help_text"] = f"{gettext('A value as JSON.')} {options.get('help_text', '')}".strip()
    return _ValueField(widget=_lines(3), **options)


def _plain(hint: Any) -> tuple[Any, bool]:
    """What an annotation asks for without its None and its annotations, and whether None is allowed."""
    if typing.get_origin(hint) is typing.Annotated:
        return _plain(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, UnionType):
        inner = [each for each in typing.get_args(hint) if each is not NoneType]
        if len(inner) == 1:
            return _plain(inner[0])[0], True
        return hint, True
    return hint, False


def _choices(kind: Any) -> Iterable[tuple[Any, str]]:
    if typing.get_origin(kind) is typing.Literal:
        return [(value, str(value)) for value in typing.get_args(kind)]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [(member.value, f"{member.name} ({member.value})") for member in kind if isinstance(member.value, str | int)]
    return []


def _coerced(values: dict[str, Any]) -> Any:
    return lambda text: values.get(str(text), text)


def _lines(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "cols": 60})


def _text(**options: Any) -> forms.CharField:
    return forms.CharField(strip=False, widget=AdminTextInputWidget, **options)


_FIELDS: dict[Any, Any] = {
    str: _text,
    int: forms.IntegerField,
    float: forms.FloatField,
    Decimal: forms.DecimalField,
    UUID: forms.UUIDField,
    bool: lambda **options: forms.NullBooleanField(**options),
    date: lambda **options: forms.DateField(widget=DateInput(format="%Y-%m-%d"), **options),
    datetime: lambda **options: forms.DateTimeField(widget=DateTimeInput(format="%Y-%m-%dT%H:%M"), **options),
}
