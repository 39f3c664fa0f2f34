"""The machine-readable description: each operation's document follows from its declaration.

OpenAPI 3.1.0, description version 0.1.0 (contract, Versioning). Paths are relative to the
server `/api/v1`, word for word as in the contract.
"""

from __future__ import annotations

import re
from functools import cache
from threading import Lock
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from apps.core import json
from apps.core.access import Level
from apps.core.operation import Operation
from apps.core.parsers import NO_NUL, Query
from apps.core.serializers import SOMETHING, Input, Name, Output, Str
from apps.core.slugs import CONVERTERS

PREFIX = "/api/v1"
WORDS = rf"^[^\x00]*{SOMETHING}[^\x00]*$"
ERRORS = {
    "400": "The request is not understood: `malformed_request`.",
    "401": "No token, or one that is not valid: `not_authenticated`, `invalid_token`; "
    "`inactive_user`.",
    "403": "The caller lacks access, a role, or ownership.",
    "404": "The named record does not exist.",
    "405": "The address does not answer this method.",
    "409": "The state of things forbids it; `error` says which.",
    "413": "The body is too large.",
    "414": "The address is too long.",
    "415": "The body is not JSON.",
    "422": "A property or parameter is not valid; `detail` names it.",
    "429": "Too much at once: `rate_limited`, `too_many_streams` for the live stream, "
    "`signup_invite_limit_reached` for invites.",
    "503": "Busy; `Retry-After` says when to try again.",
}

HEADERS = {
    "X-RateLimit-Limit": ("integer", "How many requests the tightest rate limit lets through."),
    "X-RateLimit-Remaining": ("integer", "How many of them are left."),
    "X-RateLimit-Reset": ("integer", "When its window ends, in seconds since 1970."),
    "X-RateLimit-Resource": ("string", "Its scope."),
}
"""On every answer to which a rate limit applies (behaviour.md §6)."""
RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait; with `rate_limited` and 503.",
        "schema": {"type": "integer"},
    }
}


class ErrorBody(Output):
    error = serializers.CharField()
    detail = serializers.CharField()
    conflict_paths = serializers.ListField(
        child=serializers.CharField(), required=False, allow_null=True
    )


class OperationSchema(AutoSchema):
    """Makes one operation's document from its `@operation` alone."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> dict[str, Any]:
        self.registry = registry
        self.path, self.path_regex, self.path_prefix = path, path_regex, path_prefix
        self.method = method.upper()
        view: Any = self.view
        declared: Operation = getattr(view, view.action).operation
        document: dict[str, Any] = {
            "operationId": operation_id(path.removeprefix(PREFIX), method),
            "summary": declared.summary,
            "description": declared.description,
            "tags": [view.family],
            "parameters": [*path_parameters(path_regex), *map(query_parameter, declared.query)],
            "security": [] if declared.level is Level.PUBLIC else [{"bearer": []}, {"basic": []}],
            "requestBody": self.request_body(declared),
            "responses": {**self.responses(declared), **moved(path_regex, method)},
        }
        return {key: value for key, value in document.items() if value or key == "security"}

    def request_body(self, declared: Operation) -> dict[str, Any] | None:
        if declared.takes is None:
            return None
        schema = self.resolve_serializer(declared.takes(), "request").ref
        content = {"application/json": {"schema": schema}}
        return {"content": content, "required": declared.body_required}

    def responses(self, declared: Operation) -> dict[str, Any]:
        good: dict[str, Any] = {"description": declared.summary, "headers": header_references()}
        if declared.media_type != "application/json":
            good["content"] = {declared.media_type: {"schema": {"type": "string"}}}
        elif declared.gives is not None:
            schema = self.resolve_serializer(declared.gives(), "response").ref
            content = page_schema(schema) if declared.paged else schema
            good["content"] = {"application/json": {"schema": content}}
        self.resolve_serializer(ErrorBody(), "response")
        refused = {status: {"$ref": f"#/components/responses/Error{status}"} for status in ERRORS}
        return {str(declared.status): good, **refused, **self.other_refusals(declared)}

    def other_refusals(self, declared: Operation) -> dict[str, Any]:
        """The statuses that answer with a record of their own."""
        found = {}
        for status, gives in declared.refuses.items():
            schema = self.resolve_serializer(gives(), "response").ref
            content = {"application/json": {"schema": schema}}
            found[str(status)] = {"description": declared.summary, "content": content}
        return found

    def _postprocess_serializer_schema(self, schema: Any, serializer: Any, direction: str) -> Any:
        if isinstance(serializer, Input):
            schema = {**schema, "additionalProperties": False}
        schema.pop("description", None)
        return schema

    def _map_serializer_field(
        self, field: Any, direction: str, bypass_extensions: bool = False
    ) -> Any:
        schema = super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        if schema:
            schema.pop("x-spec-enum-id", None)
        return schema

    def _insert_field_validators(self, field: Any, schema: Any) -> None:
        """Add our own patterns last: beside one, the stock mapper adds a way out for ""."""
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]
        if isinstance(field, Str):
            schema["pattern"] = NO_NUL if field.may_be_blank else WORDS
        if isinstance(field, Name) and field.pattern:
            schema["pattern"] = f"^(?:{field.pattern})$"


def operation_id(path: str, method: str) -> str:
    """`get_teams_team_slug_members`: method and path, unique by construction."""
    return "_".join([method.lower(), *re.findall(r"[a-z0-9_]+", path.lower().replace("-", "_"))])


def path_parameters(path_regex: str) -> list[dict[str, Any]]:
    return [
        {"in": "path", "name": name, "required": True, "schema": path_schema(converter)}
        for converter, name in re.findall(r"<(\w+):(\w+)>", path_regex)
    ]


def moved(path_regex: str, method: str) -> dict[str, Any]:
    """What a read of something below a slug may answer: it is elsewhere now."""
    if method.lower() != "get" or not re.search(r"<(team|repo)_slug:(team|repo)_slug>", path_regex):
        return {}
    location = {"description": "Where it is now.", "schema": {"type": "string"}}
    return {"301": {"description": "The slug is a former one.", "headers": {"Location": location}}}


def path_schema(converter: str) -> dict[str, Any]:
    if converter == "number":
        return {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999}
    return {"type": "string", "pattern": f"^(?:{CONVERTERS[converter].regex})$"}


def query_parameter(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = query.schema
    if query.many:
        schema = {"type": "array", "items": schema}
    if query.default is not None:
        schema = {**schema, "default": query.default}
    place = "header" if query.header else "query"
    parameter = {"in": place, "name": query.name, "schema": schema}
    return {
        **parameter,
        **({"required": True} if query.required else {}),
        **({"description": query.description} if query.description else {}),
    }


def page_schema(record: dict[str, Any]) -> dict[str, Any]:
    """The contract's Page around one record; CursorPage has the same three fields."""
    link = {"type": ["string", "null"], "format": "uri"}
    return {
        "type": "object",
        "required": ["results", "next", "previous"],
        "properties": {
            "results": {"type": "array", "items": record},
            "next": link,
            "previous": link,
        },
    }


def error_answers() -> dict[str, Any]:
    """The refusals, described once: every operation refers to them."""
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    return {
        f"Error{status}": {
            "description": text,
            "headers": {
                **header_references(),
                **(RETRY_AFTER if status in {"429", "503"} else {}),
            },
            "content": body,
        }
        for status, text in ERRORS.items()
    }


def header_references() -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}


def described_headers() -> dict[str, Any]:
    """What each header says; described once, referred to by every answer."""
    return {
        name: {"description": text, "schema": {"type": kind}}
        for name, (kind, text) in HEADERS.items()
    }


ONE_AT_A_TIME = Lock()
"""drf-spectacular resolves its extensions on its first run, which fails in two threads at once."""


def document() -> dict[str, Any]:
    """The whole description, made anew; `text` keeps one per process."""
    from django.conf import settings

    generator: Any = SchemaGenerator
    with ONE_AT_A_TIME:
        made = generator(urlconf=settings.ROOT_URLCONF).get_schema(public=True)
    made["servers"] = [{"url": PREFIX}]
    made["paths"] = {path.removeprefix(PREFIX): item for path, item in made["paths"].items()}
    made["components"]["responses"] = error_answers()
    made["components"]["headers"] = described_headers()
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "basic": {
            "type": "http",
            "scheme": "basic",
            "description": "Empty username, the API token as the password.",
        },
    }
    return dict(made)


@cache
def text() -> bytes:
    """The document as JSON, built once per process."""
    return json.dumps(document())
