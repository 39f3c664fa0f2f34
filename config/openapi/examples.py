"""Descriptions and examples for whatever the document says nothing of by itself.

A record's example is made of those of its properties, and stands once, in `components.examples`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from config.openapi.contract import MARK, is_beyond
from config.openapi.glossary import PARAMETERS, PROPERTIES, UUID

BY_FORMAT = {
    "date-time": "2026-01-31T09:30:00.000000Z",
    "date": "2026-01-31",
    "uuid": UUID,
    "uri": "https://guildhall.example.org/api/v1/teams",
}
JSON = "application/json"
SCHEMAS = "#/components/schemas/"
EXAMPLES = "#/components/examples/"


class Describer:
    """Goes over one document, whose schemas it knows by name."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.schemas: dict[str, Any] = document["components"]["schemas"]
        self.described: set[str] = set()
        self.examples: dict[str, Any] = document["components"].setdefault("examples", {})

    def run(self) -> None:
        for name in self.schemas:
            self.describe_schema(name)
        for item in self.document["paths"].values():
            for operation in item.values():
                self.describe_operation(operation)

    def describe_schema(self, name: str) -> dict[str, Any]:
        """The schema of this name, described the first time that it is asked for."""
        schema: dict[str, Any] = self.schemas[name]
        if name not in self.described:
            self.described.add(name)
            if "enum" in schema:
                schema["examples"] = schema["enum"][:1]
            for prop, inner in schema.get("properties", {}).items():
                self.describe_property(name, prop, inner)
        return schema

    def describe_property(self, name: str, prop: str, schema: dict[str, Any]) -> None:
        if is_beyond(name, prop):
            schema[MARK] = True
        kind = "Event" if name.endswith("Event") else name.removesuffix("Request")
        found = PROPERTIES.get(f"{kind}.{prop}") or PROPERTIES.get(prop)
        text, example = found or (None, None)
        if text and "description" not in schema:
            schema["description"] = text
        if "$ref" not in str(schema) and "examples" not in schema:
            known = example is not None and "const" not in schema
            made = example if known else self.example(schema)
            schema["examples"] = [made]

    def describe_operation(self, operation: dict[str, Any]) -> None:
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            found = PARAMETERS.get(f"{operation['tags'][0]}.{name}") or PARAMETERS.get(name)
            text, example = found or (None, None)
            if text:
                parameter.setdefault("description", text)
            schema = parameter["schema"]
            if name == "Idempotency-Key":  # each request has its own
                example = str(uuid5(NAMESPACE_URL, operation["operationId"]))
            parameter["example"] = self.example(schema) if example is None else example
        for media in self.media_of(operation):
            name = media["schema"].get("$ref", "").removeprefix(SCHEMAS)
            if name in self.schemas:
                value = self.example(media["schema"])
                self.examples.setdefault(name, {"value": value})
                media["examples"] = {name: {"$ref": f"{EXAMPLES}{name}"}}

    def media_of(self, operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What goes in as JSON, and what comes out of a success."""
        answers = operation["responses"]
        parts = [operation.get("requestBody", {})]
        parts += [answer for status, answer in answers.items() if "examples" not in str(answer)]
        for part in parts:
            if JSON in part.get("content", {}):
                yield part["content"][JSON]

    def example(self, schema: dict[str, Any]) -> Any:  # noqa: PLR0911 - one line for each sort
        """A value that fits."""
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            return self.example(self.describe_schema(schema["$ref"].removeprefix(SCHEMAS)))
        if parts := schema.get("oneOf") or schema.get("allOf"):
            return self.example(parts[0])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "properties" in schema:
            return self.example_of_object(schema)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next(one for one in kind if one != "null")
        if kind == "array":
            return [self.example(schema["items"])]
        if schema.get("format") in BY_FORMAT:
            return BY_FORMAT[schema["format"]]
        return {"object": {}, "boolean": True, "integer": 1}.get(str(kind))

    def example_of_object(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {name: self.example(inner) for name, inner in schema["properties"].items()}


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, with what `glossary` says, and an example wherever none was."""
    Describer(document).run()
    return document
