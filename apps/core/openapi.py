"""The OpenAPI document, made by drf-spectacular from the declarations of `@operation`.

OpenAPI 3.1.0, description version 1.1.0. Paths are relative to the server `/api/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from threading import Lock
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from apps.core import json
from apps.core.access import Level
from apps.core.compression import pack
from apps.core.conditional import etag_of
from apps.core.operation import Operation
from apps.core.query import IGNORED
from apps.core.refusals import CODES, by_status, codes_of
from apps.core.slugs import PREFIX

ERROR_REFERENCE = {"$ref": "#/components/schemas/ErrorBody"}
ERROR_BODY = {
    "type": "object",
    "properties": {
        "error": {"type": "string"},
        "detail": {"type": "string"},
        "conflict_paths": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["detail", "error"],
}


def header(name: str, description: str, kind: str = "string", **schema: Any) -> dict[str, Any]:
    return {name: {"description": description, "schema": {"type": kind, **schema}}}


HEADERS = {
    **header(
        "X-RateLimit-Limit",
        "Number of requests that the tightest rate limit allows in a window.",
        "integer",
    ),
    **header("X-RateLimit-Remaining", "Number of requests left in this window.", "integer"),
    **header("X-RateLimit-Reset", "End of the window, in seconds since 1970.", "integer"),
    **header("X-RateLimit-Resource", "Scope of that rate limit."),
}
"""On every answer that a rate limit counts."""
LOCATION = header("Location", "Current address.", format="uri")
IGNORED_PARAMETERS = header(
    IGNORED,
    "Names of unknown query parameters, which were ignored: percent-encoded, with commas between. "
    "A last `*` stands for more.",
)
"""On answers to reads."""
REPLAYED = header(
    "Idempotency-Replayed",
    "`true` if this answer was stored for the `Idempotency-Key` earlier.",
    enum=["true"],
)
"""On answers to `POST`."""
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": "Text that identifies this request alone, such as a UUID, also in quotes. The "
    "same request, sent again with this key within 24 hours, gets the first answer again. With "
    "another body it is 422 `idempotency_mismatch`, and 409 `idempotency_in_progress` while the "
    "first request is under way.",
    "schema": {"type": "string", "maxLength": 255, "pattern": "^[!#-~]([ -~]*[!-~])?$"},
}
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`ETag` of an earlier answer: 304 without a body if it has not changed.",
)
ETAG = header("ETag", "Identifies this version of the answer.")
"""On answers of operations that may answer 304."""
NOT_MODIFIED = {
    "description": "The answer has not changed since `If-None-Match`.",
    "headers": ETAG,
}
RETRY_AFTER = header(
    "Retry-After",
    "Seconds to wait before the next try: with most 429, some 409, and 503.",
    "integer",
)
OMITTED = "Omitted fields stay unchanged."
NEEDS = {Level.PUBLIC: "no token", Level.NONE: "a token"}
"""Requirements besides `read access` and the like, as descriptions of operations name them."""


class OperationSchema(AutoSchema):
    """Describes one operation by its `@operation`, through the hooks of `AutoSchema`."""

    view: Any

    @property
    def operation(self) -> Operation:
        declared: Operation = getattr(self.view, self.view.action).operation
        return declared

    def get_operation_id(self) -> str:
        return operation_name(self.method, self.path.removeprefix(PREFIX), self.view.action)

    def get_summary(self) -> str:
        return self.operation.summary

    def get_description(self) -> str:  # type: ignore[override]
        """The docstring below its first line, and the access that the operation needs."""
        level = self.operation.level
        needed = NEEDS.get(level, f"{level.name.lower()} access")
        rest = f"{OMITTED} " if self.may_omit_fields() else ""
        return f"{self.operation.description} {rest}Requires {needed}.".strip()

    def may_omit_fields(self) -> bool:
        """Whether this is a change with optional fields."""
        request = self.get_request_serializer()
        if self.method not in {"PUT", "PATCH"} or request is None:
            return False
        return any(not field.required for field in request().fields.values())

    def get_tags(self) -> list[str]:
        return [*self.view.schema_tags]

    def get_request_serializer(self) -> Any:
        return self.operation.request_of(self.method)

    def get_filter_backends(self) -> list[Any]:
        """Empty for lists without filters: drf-spectacular would ask for their model."""
        has_filters = self.view.is_filtered and hasattr(self.view, "filterset_class")
        return list(self.view.filter_backends) if has_filters else []

    def get_override_parameters(self) -> list[Any]:
        """The query serializer, with the fields that are sent as headers."""
        query = self.operation.query
        parameters: list[Any] = [IF_NONE_MATCH] if self.operation.has_etag(self.method) else []
        if query is None:
            return parameters
        parameters.append(query)
        for name, header in query.headers.items():
            field: Any = query().fields[name]
            text = str(field.help_text)
            sent = OpenApiParameter(header, field.schema, OpenApiParameter.HEADER, description=text)
            parameters += [OpenApiParameter(name, exclude=True), sent]
        return parameters

    def get_paginated_name(self, serializer_name: str) -> str:
        """`PullPage`: the same schema for repositories of teams and users."""
        return f"{serializer_name.removesuffix('Record')}Page"

    def get_response_serializers(self) -> Any:
        """The success, other answers with a record, and refusals."""
        declared = self.operation
        response: Any = declared.response
        status: Any = declared.status
        if declared.media_type != "application/json":
            is_text = declared.media_type.startswith("text/")
            response = OpenApiTypes.STR if is_text else OpenApiTypes.BINARY
            status = (status, declared.media_type)
        responses = {status: OpenApiResponse(response, declared.summary)}
        # For generators, which do not know these types.
        if declared.media_type in {"*/*", "application/jsonl"}:
            responses[declared.status, "application/octet-stream"] = responses[status]
        for text in declared.other_media_types:
            responses[declared.status, text] = OpenApiResponse(OpenApiTypes.STR, declared.summary)
        for other, record in declared.other_responses.items():
            responses[other] = OpenApiResponse(record, declared.summary)
        if declared.has_etag(self.method):
            responses[304] = OpenApiResponse(None)  # `complete_operation` replaces it
        path, is_list = self.path.removeprefix(PREFIX), self.view.is_filtered
        codes = codes_of(declared, self.method, path, is_list=is_list)
        for refusal, names in by_status(codes).items():
            # `complete_operation` makes the rest of the codes, for which there is no hook.
            responses.setdefault(refusal, OpenApiResponse(ERROR_REFERENCE, " ".join(names)))
        return responses


def complete_document(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Add the parts that all operations share: refusals, headers, redirects, closed bodies.

    drf-spectacular calls it once for the whole document (POSTPROCESSING_HOOKS).
    """
    components = result["components"]
    for item in result["paths"].values():
        for method, operation in item.items():
            complete_operation(method, operation)
    bodies = schemas_of_bodies(result)
    for name, schema in components["schemas"].items():
        schema.pop("description", None)  # the docstring of the class, for programmers
        if name in bodies and schema.get("type") == "object":
            schema["additionalProperties"] = False
    components["schemas"]["ErrorBody"] = ERROR_BODY
    components["schemas"] = dict(sorted(components["schemas"].items()))
    used = {*references(result["paths"])}
    components["responses"] = {
        f"Error{status}": refusal(status, codes)
        for status, codes in USUAL.items()
        if f"Error{status}" in used
    }
    components["responses"]["NotModified"] = NOT_MODIFIED
    components["examples"] = error_examples([result["paths"], components["responses"]])
    components["headers"] = HEADERS
    return rewritten(result, simplified)


def complete_operation(method: str, operation: dict[str, Any]) -> None:
    operation.setdefault("security", [])
    if "requestBody" in operation:
        operation["requestBody"]["required"] = True
    if method == "post":
        operation["parameters"] = [*operation.get("parameters", []), IDEMPOTENCY_KEY]
    responses = operation["responses"]
    for status, response in responses.items():
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if status == "304":
            responses[status] = {"$ref": "#/components/responses/NotModified"}
        elif status.startswith("2"):
            own = {"get": IGNORED_PARAMETERS, "post": REPLAYED}
            if "304" in responses:
                own["get"] = {**IGNORED_PARAMETERS, **ETAG}
            response["headers"] = {**header_references(), **own.get(method, {})}
        elif schema == ERROR_REFERENCE:
            codes = response["description"].split()
            responses[status] = (
                {"$ref": f"#/components/responses/Error{status}"}
                if codes == USUAL.get(status)
                else refusal(status, codes)
            )


USUAL = {
    "301": ["moved"],
    "400": ["malformed_request"],
    "401": ["inactive_user", "invalid_token", "not_authenticated"],
    "403": ["forbidden", "second_factor_required", "team_inactive"],
    "404": ["not_found"],
    "409": ["repo_archived"],
    "413": ["payload_too_large"],
    "414": ["uri_too_long"],
    "415": ["unsupported_media_type"],
    "422": ["validation_failed"],
    "429": ["rate_limited"],
    "431": ["header_too_long"],
    "503": ["storage_full", "unavailable"],
}
"""Refusals that many operations share, each described once."""


def refusal(status: str, codes: list[str]) -> dict[str, Any]:
    """An answer with one of these codes, each with an example."""
    headers = header_references()
    if status in {"409", "429", "503"}:
        headers |= RETRY_AFTER
    if status == "301":
        headers |= LOCATION
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {
        "description": " ".join(f"`{code}`: {CODES[code][1]}" for code in codes),
        "headers": headers,
        "content": {"application/json": {"schema": ERROR_REFERENCE, "examples": examples}},
    }


def error_examples(document: Any) -> dict[str, Any]:
    """An ErrorBody for each code that the document refers to."""
    used = {name.rpartition("/")[2] for name in references(document)}
    examples: dict[str, Any] = {
        code: {"value": {"error": code, "detail": text}}
        for code, (_, text) in CODES.items()
        if code in used
    }
    if "merge_conflict" in examples:
        examples["merge_conflict"]["value"]["conflict_paths"] = ["hello.txt"]
    return examples


def schemas_of_bodies(document: dict[str, Any]) -> set[str]:
    """The names of all schemas in request bodies, nested ones included."""
    names: set[str] = set()
    waiting = [
        item["requestBody"]
        for path in document["paths"].values()
        for item in path.values()
        if "requestBody" in item
    ]
    for part in waiting:
        for name in references(part):
            if name not in names:
                names.add(name)
                waiting.append(document["components"]["schemas"][name])
    return names


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


def rewritten(part: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A part of the document in which `change` has replaced each object, inner ones first."""
    if isinstance(part, list):
        return [rewritten(item, change) for item in part]
    if not isinstance(part, dict):
        return part
    return change({name: rewritten(value, change) for name, value in part.items()})


def simplified(part: dict[str, Any]) -> dict[str, Any]:
    """An object without drf-spectacular's own marks on enums, and without the alternative for an
    empty text that it adds to patterns: our patterns match an empty text.
    """
    part.pop("x-spec-enum-id", None)
    if part.get("oneOf", [])[1:] != [EMPTY_TEXT]:
        return part
    others = {name: value for name, value in part.items() if name != "oneOf"}
    return {**part["oneOf"][0], **others}


def header_references() -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}


ONE_AT_A_TIME = Lock()
"""drf-spectacular resolves its extensions on its first run, which fails in two threads at once."""


def document() -> dict[str, Any]:
    """The whole document, made anew; `text` caches it."""
    generator: Any = SchemaGenerator
    with ONE_AT_A_TIME:
        schema = generator().get_schema(public=True)
    return dict(schema)


@cache
def text() -> bytes:
    """The document as JSON, built once per process."""
    return json.dumps(document())


@cache
def text_as_gzip() -> bytes:
    return pack(text(), level=9)


@cache
def etag() -> str:
    """The ETag of `text`."""
    return etag_of(text())


# The names of operations: a verb, the owner if there is one, and the resource.


VERBS = {
    "list": "list",
    "create": "create",
    "retrieve": "get",
    "update": "update",
    "partial_update": "update",
    "destroy": "delete",
}
"""By the names of DRF for methods of viewsets."""
SELF_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
WHOLE = re.compile(r"(check|suggest|tail)-(.+)")
"""Paths that begin with a verb."""
EXCEPTIONS = {
    "openapi.json": "get_openapi_document",
    "forks/user/{fork_username}": "get_{owner}_repo_fork_of_user",
    "forks/team/{fork_team_slug}": "get_{owner}_repo_fork_of_team",
    "tree/{path}": "list_{owner}_directory",
    "reviews/draft/submit": "create_{owner}_pull_review_from_draft",
}
"""By the end of the path; `{owner}` is `team` or `user`."""


def operation_name(method: str, path: str, action: str) -> str:
    """The `operationId` of a method at a path below `/api/v1`, by the name of the viewset's method.

    Resources below a repository do not name it: `list_team_pulls`. Forks and webhooks do, because a
    team has them too: `list_team_repo_webhooks`.
    """
    owner, rest = split_owner(path.strip("/"))
    for end, name in EXCEPTIONS.items():
        if path.endswith(end):
            return name.format(owner=owner)
    if match := WHOLE.fullmatch(rest):
        return joined(match[1], owner, match[2])
    verb, nouns = split_verb(method, rest.split("/"), action)
    return joined(verb, owner, *nouns)


def split_owner(path: str) -> tuple[str, str]:
    """`team` or `user` if the path is below one, and the rest of the path."""
    match = re.fullmatch(r"(team|user)s/\{\w+\}/(.+)", path)
    if match is None:
        return "", path
    own = re.sub(r"^repos/\{repo_slug\}/(?!(forks?|webhooks)\b)", "", match[2])
    return match[1], own


def split_verb(method: str, parts: list[str], action: str) -> tuple[str, list[str]]:
    """The verb, and the nouns; a noun is singular if the path names one of them."""
    verb = "patch" if (method, action) == ("PATCH", "update") else VERBS.get(action)
    if parts[-1] == "self":
        return f"{SELF_VERBS[method]}_own", singulars([*parts[:-1], "{one}"])
    if verb is None and method == "GET":
        return "get", singulars(parts)
    if verb is None:
        first, _, what = action.partition("_")
        if what == "all":
            return action, singulars([part for part in parts if not part.endswith("-all")])
        return first, [*singulars(parts[:-1]), *([what] if what else [])]
    return verb, singulars([*parts, "{one}"] if verb == "create" else parts)


def singulars(parts: list[str]) -> list[str]:
    followed = zip(parts, [*parts[1:], ""], strict=True)
    return [
        singular(part) if after.startswith("{") else part
        for part, after in followed
        if not part.startswith("{")
    ]


def singular(noun: str) -> str:
    if noun.endswith("ches"):
        return noun.removesuffix("es")
    return f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")


def joined(*words: str) -> str:
    return "_".join(word for word in words if word).replace("-", "_")
