"""The machine-readable description, made by drf-spectacular from what `@operation` declares.

OpenAPI 3.1.0, description version 0.1.0. Paths are relative to the server `/api/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from apps.core import json
from apps.core.operation import Operation

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
    "`signup_invite_limit_reached` for invites, `upload_limit_reached` for uploads.",
    "503": "Busy; `Retry-After` says when to try again.",
}
ERROR_BODY = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "detail": {"type": "string"},
        "conflict_paths": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["detail", "error"],
}
HEADERS = {
    "X-RateLimit-Limit": ("integer", "How many requests the tightest rate limit lets through."),
    "X-RateLimit-Remaining": ("integer", "How many of them are left."),
    "X-RateLimit-Reset": ("integer", "When its window ends, in seconds since 1970."),
    "X-RateLimit-Resource": ("string", "Its scope."),
}
"""On every answer to which a rate limit applies."""
RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds to wait; with `rate_limited`, `upload_limit_reached` and 503.",
        "schema": {"type": "integer"},
    }
}


class OperationSchema(AutoSchema):
    """Describes one operation by its `@operation`, through the hooks that are there for it."""

    view: Any

    @property
    def operation(self) -> Operation:
        found: Operation = getattr(self.view, self.view.action).operation
        return found

    def get_operation_id(self) -> str:
        """`get_teams_team_slug_members`: method and path, unique by construction."""
        words = re.findall(r"[a-z0-9_]+", self.path.lower().replace("-", "_"))
        return "_".join([self.method.lower(), *words]).replace("_api_v1_", "_", 1)

    def get_summary(self) -> str:
        return self.operation.summary

    def get_description(self) -> str:  # type: ignore[override]
        return self.operation.description

    def get_tags(self) -> list[str]:
        return [*self.view.schema_tags]

    def get_request_serializer(self) -> Any:
        return self.operation.request

    def get_filter_backends(self) -> list[Any]:
        """Only where the list has filters: drf-spectacular asks for its model."""
        has_filters = self.view.action == "list" and hasattr(self.view, "filterset_class")
        return list(self.view.filter_backends) if has_filters else []

    def get_override_parameters(self) -> list[Any]:
        """The query serializer, of which some fields come as headers."""
        query = self.operation.query
        if query is None:
            return []
        found: list[Any] = [query]
        for name, header in query.headers.items():
            field: Any = query().fields[name]
            found += [
                OpenApiParameter(name, exclude=True),
                OpenApiParameter(
                    header,
                    field.schema,
                    OpenApiParameter.HEADER,
                    description=str(field.help_text),
                ),
            ]
        return found

    def get_response_serializers(self) -> Any:
        """The documented success, and refusals that answer with a record of their own."""
        declared = self.operation
        response: Any = declared.response
        status: Any = declared.status
        if declared.media_type != "application/json":
            is_text = declared.media_type.startswith("text/")
            response = OpenApiTypes.STR if is_text else OpenApiTypes.BINARY
            status = (status, declared.media_type)
        elif response is not None and self.view.action == "list":
            response = self.resolve_serializer(response, "response").ref
        found = {status: OpenApiResponse(response, declared.summary)}
        for other, record in declared.other_responses.items():
            found[other] = OpenApiResponse(record, declared.summary)
        return found


def complete_document(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Add what all operations share: refusals, headers, redirects, closed request bodies.

    drf-spectacular calls it once for the whole document (POSTPROCESSING_HOOKS).
    """
    components = result["components"]
    for path, item in result["paths"].items():
        for method, operation in item.items():
            complete_operation(path, method, operation)
    bodies = schemas_of_bodies(result)
    for name, schema in components["schemas"].items():
        schema.pop("description", None)  # of the class, which speaks to programmers
        if name in bodies:
            schema["additionalProperties"] = False
    components["schemas"]["ErrorBody"] = ERROR_BODY
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["responses"] = error_responses()
    components["headers"] = {
        name: {"description": text, "schema": {"type": kind}}
        for name, (kind, text) in HEADERS.items()
    }
    return simplified(result)


def complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    operation.setdefault("security", [])
    if "requestBody" in operation:
        operation["requestBody"]["required"] = True
    responses = operation["responses"]
    for status, response in responses.items():
        if status.startswith("2"):
            response["headers"] = header_references()
    for status in ERRORS:
        reference = {"$ref": f"#/components/responses/Error{status}"}
        responses.setdefault(status, reference)
    if method == "get" and re.search(r"\{(team|repo)_slug\}", path):
        location = {"description": "Where it is now.", "schema": {"type": "string"}}
        moved = {"description": "The slug is a former one.", "headers": {"Location": location}}
        responses["301"] = moved


def schemas_of_bodies(document: dict[str, Any]) -> set[str]:
    """The names of the schemas that request bodies consist of, deep inside too."""
    found: set[str] = set()
    waiting = [
        item["requestBody"]
        for path in document["paths"].values()
        for item in path.values()
        if "requestBody" in item
    ]
    for part in waiting:
        for name in references(part):
            if name not in found:
                found.add(name)
                waiting.append(document["components"]["schemas"][name])
    return found


def references(part: Any) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from references(inner)


EMPTY_TEXT = {"type": "string", "maxLength": 0}


def simplified(part: Any) -> Any:
    """The document without drf-spectacular's own marks on enums, and without the alternative that
    it adds to a pattern for an empty text: ours match that one.
    """
    if isinstance(part, list):
        return [simplified(one) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("oneOf", [])[1:] == [EMPTY_TEXT]:
        others = {name: one for name, one in part.items() if name != "oneOf"}
        part = {**part["oneOf"][0], **others}
    return {name: simplified(one) for name, one in part.items() if name != "x-spec-enum-id"}


def error_responses() -> dict[str, Any]:
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


ONE_AT_A_TIME = Lock()
"""drf-spectacular resolves its extensions on its first run, which fails in two threads at once."""


def document() -> dict[str, Any]:
    """The whole description, made anew; `text` keeps one per process."""
    generator: Any = SchemaGenerator
    with ONE_AT_A_TIME:
        made = generator().get_schema(public=True)
    return dict(made)


@cache
def text() -> bytes:
    """The document as JSON, built once per process."""
    return json.dumps(document())
