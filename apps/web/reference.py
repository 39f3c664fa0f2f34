"""`/api/`: the operations and records of the API, a page made from the OpenAPI document.

The server renders it once per process; it needs no JavaScript.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.core.access import Level
from apps.core.openapi import document
from apps.web.decorators import page
from apps.web.responses import PageRequest, render_page

JSON = "application/json"
MARK = "#/components/schemas/"
Part = dict[str, Any]


@page(Level.PUBLIC)
def reference(request: PageRequest) -> HttpResponse:
    """The reference of the API; `docs/api.md` is the guide."""
    return render_page(request, "reference", body=body())


@cache
def body() -> SafeString:
    """The HTML of the reference, which is the same for everybody."""
    described = document()
    families: dict[str, list[Part]] = {}
    for operation in operations(described):
        families.setdefault(operation["family"], []).append(operation)
    schemas = described["components"]["schemas"]
    records = [record(name, schemas[name]) for name in sorted(schemas)]
    context = {"families": sorted(families.items()), "records": records}
    return render_to_string("web/_reference.html", context)


def operations(openapi: Part) -> Iterator[Part]:
    """The operations; one entry for the twins of a team's and a user's repository."""
    by_name = {
        operation["operationId"]: (f"{method.upper()} {path}", operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }
    for name, (address, operation) in by_name.items():
        if "_user_" in name and name.replace("_user_", "_team_", 1) in by_name:
            continue
        twin = by_name.get(name.replace("_team_", "_user_", 1)) if "_team_" in name else None
        yield {
            "name": name,
            "family": operation["tags"][0],
            "addresses": [address, twin[0]] if twin else [address],
            "summary": operation["summary"],
            "description": operation["description"],
            "parameters": [parameter(item) for item in operation.get("parameters", [])],
            "body": kind_of(media(operation.get("requestBody", {}))),
            "answers": list(answers(openapi, operation["responses"])),
        }


def parameter(described: Part) -> Part:
    schema = described["schema"]
    where = {"path": "in the path", "query": "query", "header": "header"}[described["in"]]
    required = described.get("required") and described["in"] != "path"
    return {
        "name": described["name"],
        "where": f"{where}, required" if required else where,
        "kind": kind_of(schema),
        "text": described.get("description", ""),
    }


def answers(openapi: Part, responses: Part) -> Iterator[Part]:
    """Each status of an operation, with its record or its error codes."""
    for status, answer in sorted(responses.items()):
        if "$ref" in answer:
            answer = openapi["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        content = answer.get("content", {})
        if status < "300":
            text = next(iter(content), "")
            details = {"kind": kind_of(media(answer)), "media": "" if text == JSON else text}
        else:
            details = {"codes": [*content.get(JSON, {}).get("examples", {})]}
        yield {"status": status, **details}


def media(part: Part) -> Part:
    schema: Part = part.get("content", {}).get(JSON, {}).get("schema", {})
    return schema


def record(name: str, schema: Part) -> Part:
    needed = schema.get("required", [])
    fields = [
        {
            "name": field,
            "kind": kind_of(inner),
            "text": inner.get("description", ""),
            "needed": field in needed,
        }
        for field, inner in schema.get("properties", {}).items()
    ]
    others = [kind_of(option) for option in schema.get("oneOf", [])]
    return {"name": name, "fields": fields, "words": schema.get("enum", []), "others": others}


def kind_of(schema: Part) -> Part:
    """The type of a schema in words, and the name of the record to link to."""
    if "$ref" in schema:
        return {"link": schema["$ref"].removeprefix(MARK), "words": ""}
    if "oneOf" in schema:  # a nullable list of words: the union of events is a schema of its own
        return {**kind_of(schema["oneOf"][0]), "words": "or null"}
    if schema.get("type") == "array":
        return {**kind_of(schema["items"]), "many": True}
    kinds = schema.get("type", "")
    return {"words": " or ".join(kinds) if isinstance(kinds, list) else kinds}
