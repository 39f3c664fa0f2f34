"""The OpenAPI document, from which clients are generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema_rs import meta

from apps.core import openapi
from config.openapi.hooks import EVENT_FIELDS, FIELDS, MARK
from tests import snapshot
from tests.routes import Routed, described, resolved, routed

pytestmark = pytest.mark.once

STORED = Path(__file__).parents[2] / "docs" / "openapi.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def parts(node: Any) -> Iterator[dict[str, Any]]:
    """All objects in the document."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    for inner in node if isinstance(node, list) else ():
        yield from parts(inner)


def test_the_description_in_the_docs_is_the_one_that_is_served(api):
    snapshot.check(STORED, api().get("/openapi.json").gives())


def test_the_description_is_made_once(client, db):
    assert openapi.text() is openapi.text()
    assert orjson.loads(openapi.text()) == openapi.document()
    assert client.get("/api/v1/openapi.json").content == openapi.text()


def test_nothing_is_said_in_the_terminal_when_the_description_is_made(capsys):
    openapi.document()
    assert capsys.readouterr().err == ""


def test_every_reference_leads_somewhere_and_every_component_is_used():
    document = described()
    used = {part["$ref"] for part in parts(document) if "$ref" in part}
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses", "headers", "examples")
        for name in document["components"][kind]
    }
    assert used == there


def wrong(look: Callable[[Any], Iterator[str]], named: dict[str, Any]) -> dict[str, list[str]]:
    """The problems that `look` finds, by name."""
    found = {name: list(look(one)) for name, one in named.items()}
    return {name: problems for name, problems in found.items() if problems}


def test_every_component_is_a_schema_of_its_dialect():
    def problems(schema: dict[str, Any]) -> Iterator[str]:
        if not meta.is_valid({"$schema": DIALECT, **schema}):
            yield f"no schema of {DIALECT}"
        for part in parts(schema):
            yield from {"nullable", "x-spec-enum-id"} & set(part)
            if isinstance(part.get("pattern"), str):
                re.compile(part["pattern"])

    assert wrong(problems, described()["components"]["schemas"]) == {}


def test_every_operation_is_described_in_full():
    def problems(one: Routed) -> Iterator[str]:
        found = one.described
        if not re.fullmatch(r"[A-Z][^\n]*\.", found["summary"]):
            yield f"no sentence, the docstring's first line: {found['summary']}"
        if found["tags"] != [*one.viewset.schema_tags]:
            yield f"tags {found['tags']}"
        if not found.get("description"):
            yield "no description"
        yield from {"401", "414", "429", "503"} - set(found["responses"])

    assert wrong(problems, {str(one): one for one in routed()}) == {}


def test_every_request_body_lists_all_that_it_takes():
    def problems(one: Routed) -> Iterator[str]:
        request = one.request
        assert request is not None
        schema = resolved(one.described["requestBody"]["content"]["application/json"]["schema"])
        if set(schema["properties"]) != set(request().fields):
            yield f"lists {list(schema['properties'])}"
        for part in parts(schema):
            inner = resolved(part) if "$ref" in part else part
            if inner.get("type") == "object" and inner["additionalProperties"] is not False:
                yield f"is open: {inner}"

    assert wrong(problems, {str(one): one for one in routed() if one.request}) == {}


def test_fields_beyond_the_contract_are_marked():
    for name, fields in FIELDS.items():
        properties = described()["components"]["schemas"][name]["properties"]
        assert fields <= set(properties)
        assert {prop for prop, schema in properties.items() if MARK not in schema} == fields


def test_fields_of_events_beyond_the_contract_are_marked_in_each_kind():
    schemas = described()["components"]["schemas"]
    events = {name: schema for name, schema in schemas.items() if name.endswith("Event")}
    assert len(events) > 10
    for schema in events.values():
        fields = {prop for prop, inner in schema["properties"].items() if MARK not in inner}
        assert fields == EVENT_FIELDS


def test_the_tests_would_see_a_field_that_is_not_described(api, alice, monkeypatch):
    monkeypatch.setattr("apps.accounts.views.token_record", lambda token: {"digest": "x"})
    with pytest.raises(AssertionError, match="digest"):
        api(alice).get("/api-tokens/self")
