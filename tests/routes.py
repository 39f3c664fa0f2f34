"""The routes under `/api/v1` as rows, for table-driven tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from django.urls import URLPattern

import config.urls  # noqa: F401 - the routes need its converters
from apps.core.openapi import text
from apps.core.operation import Operation
from apps.core.serializers import RequestSerializer
from config import api

PARAMETER = re.compile(r"<(\w+):(\w+)>")


@dataclass(frozen=True)
class Routed:
    """A method at a path in the form of the document."""

    method: str
    path: str
    viewset: type[Any]
    action: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def function(self) -> Any:
        return getattr(self.viewset, self.action)

    @property
    def operation(self) -> Operation:
        found: Operation = self.function.operation
        return found

    @property
    def request(self) -> type[RequestSerializer] | None:
        """The serializer of its body."""
        return self.operation.request_of(self.method)

    @property
    def described(self) -> dict[str, Any]:
        """The operation in the OpenAPI document."""
        found: dict[str, Any] = described_paths()[self.path][self.method.lower()]
        return found


@cache
def routed() -> tuple[Routed, ...]:
    """All methods of all routes; GET includes HEAD."""
    return tuple(sorted(_routed(), key=str))


def _routed() -> Iterator[Routed]:
    for pattern in api.urlpatterns:
        assert isinstance(pattern, URLPattern)
        view: Any = pattern.callback
        path = "/" + PARAMETER.sub(r"{\2}", str(pattern.pattern))
        for method, action in view.actions.items():
            if method != "head":
                yield Routed(method.upper(), path, view.cls, action)


@cache
def described() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(text())  # cached: making it takes half a second
    return document


def described_paths() -> dict[str, Any]:
    paths: dict[str, Any] = described()["paths"]
    return paths


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The referenced schema, or the schema itself if it is no reference."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: dict[str, Any] = described()["components"]["schemas"][reference.rpartition("/")[2]]
    return found
