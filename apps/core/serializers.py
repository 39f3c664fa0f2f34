"""What comes in and goes out: strict inputs, described outputs (behaviour.md §1 trap 15).

An input refuses unknown properties and coerces nothing. An output only describes a record; the
record itself is a plain dict made by a function beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.errors import Invalid
from apps.core.json import quoted

WHOLE = "non_field_errors"
"""What DRF files a complaint about a list or an object itself under."""
Problem = Callable[[str], str | None]
SOMETHING = (
    r"[^\x00\t\n\v\f\r \x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
)
"""One character that can be seen."""


class Str(serializers.CharField):
    """A string as it was sent: never trimmed, never made from a number, without NUL.

    `blank=False` also refuses text of white space alone. Lengths are in characters.
    """

    default_error_messages = {"blank": "May not be blank."}

    def __init__(self, *, most: int, blank: bool = False, **options: Any) -> None:
        self.may_be_blank = blank
        super().__init__(trim_whitespace=False, allow_blank=blank, max_length=most, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not self.may_be_blank and not re.search(SOMETHING, data):
            self.fail("blank")
        return data


class Name(Str):
    """A string with a rule of its own; `problem` says what is wrong with a value, or None.

    `pattern` is what the document says of it, where a regular expression can.
    """

    def __init__(self, *, problem: Problem, most: int, pattern: str = "", **options: Any) -> None:
        self.problem = problem
        self.pattern = pattern
        super().__init__(most=most, **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        reason = self.problem(text)
        if reason is not None:
            raise serializers.ValidationError(reason)
        return text


class Int(serializers.IntegerField):
    """An integer; an integral float (`3.0`) is one, a string or a boolean is not."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or data != int(data):
            self.fail("invalid")
        return int(data)


class Bool(serializers.BooleanField):
    """`true` or `false` and nothing that looks like them."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class Choice(serializers.ChoiceField):
    """One word of a closed vocabulary; the refusal names the words."""

    def __init__(self, words: type[StrEnum] | list[str], **options: Any) -> None:
        super().__init__(choices=[str(word) for word in words], **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            shown = quoted(data) if isinstance(data, str) else "This"
            raise serializers.ValidationError(f"{shown} is not one of {', '.join(self.choices)}.")
        return data


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(serializers.Field[Any, Any, Any, Any]):
    """Describes a timestamp in an output."""


class Output(serializers.Serializer[Any]):
    """Describes a record of the API; see `openapi`."""


class Input(serializers.Serializer[Any]):
    """A request body: only the properties declared here, each of exactly its type."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            raise Invalid("unknown_field", unknown_text(unknown, list(self.fields)))
        return super().to_internal_value(data)


def unknown_text(unknown: list[str], known: list[str]) -> str:
    names = ", ".join(quoted(name) for name in unknown[:10])
    allowed = f"Known: {', '.join(known)}." if known else "This request takes no properties."
    return f"Unknown: {names}. {allowed}"


def parse(takes: type[Input], body: dict[str, Any]) -> dict[str, Any]:
    """The checked properties that were sent, no others; `Invalid` with one line of text."""
    try:
        return dict(_form(takes).run_validation(body))
    except serializers.ValidationError as refusal:
        raise Invalid("validation_failed", " ".join(_lines(refusal.detail))) from None


@cache
def _form(takes: type[Input]) -> Input:
    """One for all requests: to make a serializer takes longer than what it does, and checking a
    body leaves nothing in it but the messages of its validators, which are put together here.
    """
    form = takes()
    _put_messages_together(form)
    return form


def _put_messages_together(field: Any) -> None:
    """DRF does so at the first refusal, and not safely for two threads at once."""
    for validator in field.validators:
        str(getattr(validator, "message", ""))
    inner = [*getattr(field, "fields", {}).values(), getattr(field, "child", None)]
    for each in filter(None, inner):
        _put_messages_together(each)


def _lines(errors: Any, prefix: str = "") -> list[str]:
    """Flatten DRF's nested errors to `field[0].field: reason`, in the order of the fields."""
    if not isinstance(errors, dict):
        return [f"{prefix}: {' '.join(str(reason) for reason in errors)}"]
    lines: list[str] = []
    for name, inner in errors.items():
        step = f"[{name}]" if isinstance(name, int) else f".{name}" if prefix else name
        lines += _lines(inner, prefix if name == WHOLE else prefix + step)
    return lines
