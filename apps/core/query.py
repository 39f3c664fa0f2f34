"""Query parameters that are neither filters nor pages: declared in a serializer, read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import quote

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from apps.core.errors import Invalid
from apps.core.serializers import NO_NUL, unknown_text, validated

IGNORED = "X-Ignored-Parameters"
"""The header that names the query parameters of a read that it does not know."""
IGNORED_MAX = 500
"""Maximum length of that header in characters: proxies refuse an answer with very long ones."""
MORE = "*"
"""Ends a header with too little room for all names. A name with this character has `%2A`."""
URL_SAFE_BASE64 = "[A-Za-z0-9_-]*={0,2}"
DIGITS = re.compile(r"[0-9]{1,20}")


def number(text: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """An ASCII integer within bounds; `ValueError` says what is expected."""
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
    """Bytes in the URL-safe alphabet of base64 (RFC 4648, section 5); whoever reads it decodes."""


class FlagParameter(serializers.BooleanField):
    """`true` or `false`; false when it is not sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(default=False, **options)

    def to_internal_value(self, data: Any) -> bool:
        if data not in {"true", "false"}:
            raise serializers.ValidationError("Must be true or false.")
        return bool(data == "true")


def refuse_unknown(unknown: list[str], known: list[str]) -> None:
    """422 `unknown_parameter` for a write: a mistyped guard must not be no guard."""
    text = unknown_text(unknown, known, "query parameters")
    raise Invalid("unknown_parameter", text)


def ignored_names(unknown: list[str]) -> str:
    """The same for a read, as a header: percent-encoded, so that nothing but names is in it."""
    names: list[str] = []
    left = IGNORED_MAX - len(f", {MORE}")
    for name in filter(None, unknown):  # `?=1` has no name to tell
        encoded = quote(name, safe="")
        left -= len(f", {encoded}")
        if left < 0:
            return ", ".join([*names, MORE])
        names.append(encoded)
    return ", ".join(names)


class QuerySerializer(serializers.Serializer[Any]):
    """The query parameters of an operation. A `ListField` is one that may be repeated."""

    headers: ClassVar[dict[str, str]] = {}
    """Fields that come as a header, with its name. An empty header says nothing."""

    def names(self) -> list[str]:
        """The query parameters that there are, without what comes as a header."""
        return [name for name in map(str, self.fields) if name not in self.headers]

    def read(self, request: Request) -> dict[str, Any]:
        """The checked values of what was sent, and the defaults; 422 names what is wrong."""
        return validated(self, dict(self._sent(request)))

    def _sent(self, request: Request) -> Iterable[tuple[str, Any]]:
        for name, field in self.fields.items():
            if name in self.headers:
                if text := request.headers.get(self.headers[name]):
                    yield name, text
            elif texts := request.query_params.getlist(name):
                yield name, texts if isinstance(field, serializers.ListField) else texts[-1]
