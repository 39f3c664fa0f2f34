"""The promises of an OpenAPI document to clients, each as a line of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NEEDS = " needs "
"""Stands in each line of `demands`, and in no promise."""
TWIN = "/users/{username}/repos/{repo_slug}"
"""Operations below it are those of the repositories of teams."""


def promises(document: dict[str, Any]) -> set[str]:
    """Operations, parameters, answers, fields, words and error codes on which clients rely."""
    lines = {f"code {code}" for code in codes_of(document)}
    for name, operation in operations_of(document):
        lines |= {name, f"{name} is {operation['operationId']}"}
        lines |= {f"{name} answers {text}" for text in successes(operation)}
        for parameter in operation.get("parameters", []):
            lines.add(f"{name} takes {parameter['in']} {parameter['name']}")
        if body := body_of(operation):
            lines.add(f"{name} takes {kind(body)}")
    for name, schema in document["components"]["schemas"].items():
        lines |= {*promises_of(name, schema)}
    return lines


def demands(document: dict[str, Any]) -> set[str]:
    """The parameters of an operation and the fields of a body that clients have to send."""
    lines = set()
    for name, operation in operations_of(document):
        for parameter in operation.get("parameters", []):
            if parameter.get("required"):
                lines.add(f"{name}{NEEDS}{parameter['name']}")
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("Request"):
            lines |= {f"{name}{NEEDS}{field}" for field in schema.get("required", [])}
    return lines


def operations_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        if not path.startswith(TWIN):
            for method, operation in operations.items():
                yield f"{method.upper()} {path}", operation


def codes_of(document: dict[str, Any]) -> Iterator[str]:
    for name, example in document["components"]["examples"].items():
        if "error" in example["value"]:
            yield name


def body_of(operation: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    schema: dict[str, Any] = content.get("application/json", {}).get("schema", {})
    return schema


def successes(operation: dict[str, Any]) -> Iterator[str]:
    """Each status, media type and schema of an answer that is no refusal."""
    for status, answer in operation["responses"].items():
        if status < "300":
            yield status
            for media, content in answer.get("content", {}).items():
                yield f"{status} {media} {kind(content['schema'])}"


def promises_of(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """The fields of a record or a body, or the words of an enum."""
    is_request = name.endswith("Request")
    yield from (f"{name} has {word}" for word in schema.get("enum", []))
    for field, inner in schema.get("properties", {}).items():
        kinds = kind(inner).split(" or ") if is_request else [kind(inner)]
        yield from (f"{name}.{field}: {one}" for one in kinds)
        if not is_request and field in schema.get("required", []):
            yield f"{name}.{field} is always sent"


def kind(schema: dict[str, Any]) -> str:
    """The type of a schema, or its name, such as `string or null` and `array of Link`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for choice in ("oneOf", "anyOf", "allOf"):
        if choice in schema:
            return " or ".join(kind(one) for one in schema[choice])
    types = schema.get("type", "anything")
    if types == "array":
        return f"array of {kind(schema['items'])}"
    return " or ".join(types) if isinstance(types, list) else str(types)
