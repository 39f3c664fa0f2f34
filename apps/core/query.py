"""Query parameters besides filters and pages: declared in a serializer and read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import quote

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from apps.core.serializers import NO_NUL, validated

IGNORED = "X-Ignored-Parameters"
"""The header that names the unknown query parameters of a read."""
IGNORED_MAX = 500
"""Maximum length of that header in characters: proxies refuse an answer with very long ones."""
MORE = "*"
"""Ends a header with too little room for all names. A name with this character has `%2A`."""
URL_SAFE_BASE64 = "[A-Za-z0-9_-]*={0,2}"
DIGITS = re.compile(r"[0-9]{1,20}")


def number(text: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """An ASCII integer within bounds; else a `ValueError` with the bounds."""
    if not DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise ValueError(f"Must be an integer from {least} to {most}.")
    return int(text)


@extend_schema_field({"type": "string", "pattern": NO_NUL})
class TextParameter(serializers.Field[Any, Any, Any, Any]):
    """Any text without NUL, as it was sent."""

    def to_internal_value(self, data: Any) -> Any:
        if "\0" in data:
            raise serializers.ValidationError("NUL is not allowed.")
        return data


@extend_schema_field({"type": "string", "pattern": f"^{URL_SAFE_BASE64}$"})
class Base64Parameter(TextParameter):
    """Bytes in URL-safe base64 (RFC 4648, section 5), not decoded here."""


class FlagParameter(serializers.BooleanField):
    """`true` or `false`; false if it is not sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(default=False, **options)

    def to_internal_value(self, data: Any) -> bool:
        if data not in {"true", "false"}:
            raise serializers.ValidationError("Must be true or false.")
        return bool(data == "true")


def ignored_names(unknown: list[str]) -> str:
    """The header for a read: the names, percent-encoded, so that none forges another header."""
    names: list[str] = []
    room = IGNORED_MAX - len(f", {MORE}")
    for name in filter(None, unknown):  # `?=1` has no name
        encoded = quote(name, safe="")
        room -= len(f", {encoded}")
        if room < 0:
            return ", ".join([*names, MORE])
        names.append(encoded)
    return ", ".join(names)


class QuerySerializer(serializers.Serializer[Any]):
    """The query parameters of an operation. A `ListField` may be repeated."""

    headers: ClassVar[dict[str, str]] = {}
    """Headers by field, for fields that are sent as a header. An empty header counts as none."""

    def names(self) -> list[str]:
        """The names of the query parameters, without those that are headers."""
        return [name for name in map(str, self.fields) if name not in self.headers]

    def read(self, request: Request) -> dict[str, Any]:
        """The validated values and the defaults; 422 names the invalid ones."""
        return validated(self, dict(self._sent(request)))

    def _sent(self, request: Request) -> Iterable[tuple[str, Any]]:
        for name, field in self.fields.items():
            if name in self.headers:
                if text := request.headers.get(self.headers[name]):
                    yield name, text
            elif texts := request.query_params.getlist(name):
                yield name, texts if isinstance(field, serializers.ListField) else texts[-1]
