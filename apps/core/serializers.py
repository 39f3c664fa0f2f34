"""Base classes for serializers and their fields.

A request serializer refuses unknown properties and converts no types. A record serializer only
describes a record for the OpenAPI document; a function beside it makes the dict.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.controls import CHARACTERS, NO_CONTROLS, name_problem
from apps.core.errors import Invalid
from apps.core.json import quoted

NON_FIELD_ERRORS = "non_field_errors"
"""DRF's key for an error of a list or an object as a whole."""
S = TypeVar("S", bound=serializers.Serializer[Any])
Problem = Callable[[str], str | None]
"""Returns why a text is not valid, or None if it is."""
VISIBLE = (
    r"[^\x00\t\n\v\f\r \x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
)
"""Regular expression of a visible character."""
NO_NUL = r"^[^\x00]*$"
"""Pattern of any text without NUL, which PostgreSQL cannot store."""
NOT_BLANK = rf"^[^\x00]*{VISIBLE}[^\x00]*$"


class StrictCharField(serializers.CharField):
    """A string, not trimmed and not converted from a number, without NUL.

    `allow_blank=False` also refuses white space alone. Lengths are in characters.
    """

    default_error_messages = {"blank": "May not be blank."}
    pattern = ""
    """Regular expression of the whole text for the OpenAPI document; may be empty."""

    def __init__(self, *, max_length: int, **options: Any) -> None:
        super().__init__(trim_whitespace=False, max_length=max_length, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        if not self.allow_blank and not re.search(VISIBLE, data):
            self.fail("blank")
        return data


class RuleCharField(StrictCharField):
    """A string with a rule: `problem` returns why a value is not valid, or None."""

    def __init__(
        self, *, problem: Problem, max_length: int, pattern: str = "", **options: Any
    ) -> None:
        self.problem = problem
        self.pattern = pattern
        super().__init__(max_length=max_length, **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        reason = self.problem(text)
        if reason is not None:
            raise serializers.ValidationError(reason)
        return text


class NameField(RuleCharField):
    """A name or title: one line without control characters."""

    def __init__(self, *, max_length: int, **options: Any) -> None:
        visible = f"{VISIBLE[:-1]}{CHARACTERS}]"
        pattern = f"{NO_CONTROLS}{visible}{NO_CONTROLS}"
        super().__init__(problem=name_problem, max_length=max_length, pattern=pattern, **options)


class StrictCharFieldSchema(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Describes such strings by length and pattern; drf-spectacular finds this by itself."""

    target_class = StrictCharField
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        field: StrictCharField = self.target
        pattern = f"^(?:{field.pattern})$" if field.pattern else ""
        schema: dict[str, Any] = {"type": "string", "maxLength": field.max_length}
        if not field.allow_blank:
            schema["minLength"] = 1
        return {**schema, "pattern": pattern or (NO_NUL if field.allow_blank else NOT_BLANK)}


class StrictIntegerField(serializers.IntegerField):
    """An integer, or an integral float (`3.0`), but not a string or a boolean."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or data != int(data):
            self.fail("invalid")
        return int(data)


class StrictBooleanField(serializers.BooleanField):
    """`true` or `false`, and nothing similar."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class StrictChoiceField(serializers.ChoiceField):
    """A word of a closed vocabulary; the error message names the words."""

    def __init__(self, choices: type[StrEnum] | list[str], **options: Any) -> None:
        super().__init__(choices=[str(word) for word in choices], **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError(not_one_of(data, self.choices))
        return data


def not_one_of(value: object, words: Any) -> str:
    """The error message for a value that is none of these words."""
    subject = quoted(value) if isinstance(value, str) else "This"
    return f"{subject} is not one of {', '.join(words)}."


@extend_schema_field({"type": "string", "format": "date-time"})
class TimestampField(serializers.Field[Any, Any, Any, Any]):
    """Describes a time in a record: ISO 8601 in UTC."""


class RecordSerializer(serializers.Serializer[Any]):
    """Describes a record of the API; see `openapi`."""


class RequestSerializer(serializers.Serializer[Any]):
    """A request body with only the declared properties, each of its exact type."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            raise Invalid("unknown_field", unknown_text(unknown, list(self.fields)))
        return super().to_internal_value(data)


class AllOptional(RequestSerializer):
    """Makes the fields of another request optional; fields inside them stay as they are."""

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


@cache
def partial_of(request: type[RequestSerializer]) -> type[RequestSerializer]:
    """The request for `PATCH`: `request` with all fields optional, or itself if they are already.

    `UpdateTeam` becomes `PatchTeam`. Omitted fields get no default: the action does not see them.
    """
    if not any(field.required for field in request().fields.values()):
        return request
    name = request.__name__.replace("Update", "Patch", 1)
    return type(name, (AllOptional, request), {})


class ReadySerializers(threading.local):
    """One serializer of each class for each thread, used for one request at a time.

    A new serializer copies all fields, which takes several times as long as the validation.
    """

    def __init__(self) -> None:
        self.serializers: dict[type[serializers.Serializer[Any]], Any] = {}

    def of(self, kind: type[S]) -> S:
        if kind not in self.serializers:
            self.serializers[kind] = kind()
        serializer: S = self.serializers[kind]
        return serializer


ready = ReadySerializers()


def unknown_text(unknown: list[str], known: list[str], what: str = "properties") -> str:
    names = ", ".join(quoted(name) for name in unknown[:10])
    allowed = f"Known: {', '.join(known)}." if known else f"This request takes no {what}."
    return f"Unknown: {names}. {allowed}"


def validated(serializer: serializers.Serializer[Any], data: dict[str, Any]) -> dict[str, Any]:
    """The validated values and nothing else; `Invalid` with one line of text."""
    try:
        return dict(serializer.run_validation(data))
    except serializers.ValidationError as refusal:
        raise Invalid("validation_failed", " ".join(_lines(refusal.detail))) from None


def _lines(errors: Any, prefix: str = "") -> list[str]:
    """Flatten DRF's nested errors to `field[0].field: reason`, in the order of the fields."""
    if not isinstance(errors, dict):
        return [f"{prefix}: {' '.join(str(reason) for reason in errors)}"]
    lines: list[str] = []
    for name, inner in errors.items():
        step = f"[{name}]" if isinstance(name, int) else f".{name}" if prefix else name
        lines += _lines(inner, prefix if name == NON_FIELD_ERRORS else prefix + step)
    return lines
