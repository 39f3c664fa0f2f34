"""The OpenAPI document for people and generators: names, words, examples, codes of refusals."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from apps.core.refusals import CODES
from apps.events.kinds import Kind
from config.openapi.events import SHAPES, schema_name
from config.openapi.hooks import glossary, glossary_key, record_of
from tests import snapshot
from tests.routes import Routed, described, resolved, routed

pytestmark = pytest.mark.once

VERBS = (
    "apply check create delete get list merge patch ping read read_all redeliver restore revoke "
    "rotate set suggest tail update"
)
NAME = re.compile(rf"({'|'.join(VERBS.split())})(_[a-z]+)+")
SCHEMAS: dict[str, Any] = described()["components"]["schemas"]
PROPERTIES = [
    (f"{name}.{prop}", inner)
    for name, schema in SCHEMAS.items()
    for prop, inner in schema.get("properties", {}).items()
]
SHARED_SENTENCES = Path(__file__).with_name("shared_sentences.json")


@cache
def validator(schema: str) -> Draft202012Validator:
    """The validator of a schema in JSON, with the shared schemas if it refers to them."""
    shared = {"components": described()["components"]} if "$ref" in schema else {}
    return Draft202012Validator({**json.loads(schema), **shared})


def problems(schema: Any, value: Any) -> list[str]:
    """The errors of an example."""
    errors = validator(json.dumps(schema)).iter_errors(value)
    return [f"{one.instance_path}: {one.message}" for one in errors]


def answer_of(response: dict[str, Any]) -> dict[str, Any]:
    """A response of an operation; some are references to shared ones."""
    name = response.get("$ref", "").rpartition("/")[2]
    shared: dict[str, Any] = described()["components"]["responses"]
    return shared[name] if name else response


# Names


def test_operations_are_called_what_a_person_would_call_them():
    names = [one.described["operationId"] for one in routed()]
    assert [name for name in names if not NAME.fullmatch(name)] == []
    assert len({*names}) == len(names)


def test_the_pages_of_both_owners_are_one_schema():
    def page(path: str) -> Any:
        answer = described()["paths"][path]["get"]["responses"]["200"]
        return answer["content"]["application/json"]["schema"]

    of_team = page("/teams/{team_slug}/repos/{repo_slug}/pulls")
    assert of_team == {"$ref": "#/components/schemas/PullPage"}
    assert of_team == page("/users/{username}/repos/{repo_slug}/pulls")


def test_no_schema_and_no_list_of_words_appears_twice_without_a_name():
    def inline(part: Any, where: str) -> Iterator[tuple[str, str]]:
        if isinstance(part, dict):
            if "enum" in part or "properties" in part:
                yield json.dumps(part, sort_keys=True), where
            for name, inner in part.items():
                yield from inline(inner, f"{where}/{name}")
        elif isinstance(part, list):
            for inner in part:
                yield from inline(inner, where)

    found = [*inline(described()["paths"], "paths")]
    for name, schema in SCHEMAS.items():
        for prop, inner in schema.get("properties", {}).items():
            found += inline(inner, f"{name}.{prop}")
    assert found == []


def test_words_that_may_be_null_are_those_words_or_null():
    strategy = SCHEMAS["PullRecord"]["properties"]["merge_strategy"]
    assert strategy["oneOf"] == [{"$ref": "#/components/schemas/MergeStrategy"}, {"type": "null"}]


# Descriptions and examples


def test_every_property_and_parameter_says_what_it_is():
    """Add missing sentences to `config/openapi/glossary.toml`, or as a `help_text`."""
    silent = [name for name, schema in PROPERTIES if not schema.get("description")]
    for one in routed():
        for parameter in one.described.get("parameters", []):
            if not parameter.get("description") or parameter.get("example") is None:
                silent.append(f"{one}: {parameter['name']}")
    assert silent == []


def test_a_sentence_is_shared_only_by_the_records_that_are_listed_for_it():
    """A new field takes the sentence of the fields with its name. List its record once you have
    read that sentence, or give the field a row of its own in `config/openapi/glossary.toml`.
    """
    records = defaultdict[str, set[str]](set)
    for where, schema in PROPERTIES:
        name, prop = where.split(".")
        key = glossary_key(name, prop)
        sentence, *_ = glossary()["properties"].get(key, [None])
        is_shared = key == prop and schema["description"] == sentence
        if is_shared and prop not in {"results", "next", "previous"}:  # of every page
            records[prop].add(record_of(name))
    made = {prop: " ".join(sorted(records[prop])) for prop in sorted(records)}
    snapshot.check(SHARED_SENTENCES, made)


def test_every_property_has_an_example_that_fits():
    wrong = {}
    for name, schema in PROPERTIES:
        if "$ref" in str(schema):  # the example is in the referenced schema
            continue
        shown = schema.get("examples", [])
        found = problems(schema, shown[0]) if shown else ["none"]
        if found:
            wrong[name] = found
    assert wrong == {}


def test_the_examples_of_parameters_fit():
    wrong = {}
    for one in routed():
        for parameter in one.described.get("parameters", []):
            if found := problems(parameter["schema"], parameter["example"]):
                wrong[f"{one}: {parameter['name']}"] = found
    assert wrong == {}


def test_every_body_and_every_answer_has_an_example_that_fits():
    examples = described()["components"]["examples"]

    def media(one: Routed) -> Iterator[tuple[str, Any]]:
        parts = {"body": one.described.get("requestBody", {}), **one.described["responses"]}
        for name, part in parts.items():
            content = answer_of(part).get("content", {})
            if "application/json" in content:
                yield f"{one} {name}", content["application/json"]

    wrong: dict[str, list[str]] = {}
    for one in routed():
        for where, content in media(one):
            for reference in content.get("examples", {"": {"$ref": "/"}}).values():
                example = examples.get(reference["$ref"].rpartition("/")[2])
                found = problems(content["schema"], example["value"]) if example else ["none"]
                if found:
                    wrong[where] = found
    assert wrong == {}


# Events


def test_every_kind_of_event_has_its_own_target_and_data():
    assert {*SHAPES} == {*Kind}
    mapping = SCHEMAS["EventRecord"]["discriminator"]["mapping"]
    assert SCHEMAS["EventRecord"]["discriminator"]["propertyName"] == "kind"
    assert mapping == {kind: f"#/components/schemas/{schema_name(kind)}" for kind in Kind}
    assert [{"$ref": one} for one in mapping.values()] == SCHEMAS["EventRecord"]["oneOf"]
    for kind in Kind:
        fields = SCHEMAS[schema_name(kind)]["properties"]
        assert fields["kind"]["const"] == kind
        assert fields.keys() == SCHEMAS["PullMergedEvent"]["properties"].keys()
        assert "kind" in resolved({"$ref": fields["target"]["$ref"]})["properties"]


def test_a_number_in_a_target_is_called_number():
    targets = {name: schema for name, schema in SCHEMAS.items() if name.endswith("Target")}
    assert len(targets) == 20
    for name, schema in targets.items():
        numbers = {prop for prop, one in schema["properties"].items() if one["type"] == "integer"}
        assert not numbers or "number" in numbers, name
    former = SCHEMAS["ReviewTarget"]["properties"]["pull_number"]
    assert former["deprecated"] is True


# Refusals


def test_refusals_name_their_codes_and_each_has_its_status():
    for one in routed():
        for status, answer in one.described["responses"].items():
            if status < "300" or status == "304" or int(status) in one.operation.other_responses:
                continue
            content = answer_of(answer)["content"]["application/json"]
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
            assert content["examples"], f"{one} {status}"
            assert {CODES[code][0] for code in content["examples"]} == {int(status)}


def test_only_what_can_occur_is_listed():
    reading = described()["paths"]["/teams/{team_slug}/repos/{repo_slug}"]["get"]["responses"]
    assert {"409", "413", "415", "400"}.isdisjoint(reading)
    open_to_all = described()["paths"]["/check-username"]["get"]["responses"]
    assert {"403", "404"}.isdisjoint(open_to_all)


def test_a_former_slug_has_its_answer():
    reading = described()["paths"]["/teams/{team_slug}"]["get"]["responses"]["301"]
    moved = answer_of(reading)
    assert set(moved["content"]["application/json"]["examples"]) == {"moved"}
    assert "Location" in moved["headers"]


def test_the_tests_would_see_a_code_that_is_not_described(api, team_repo, alice, monkeypatch):
    monkeypatch.setitem(CODES, "not_found", (404, "Gone."))
    from apps.core import errors

    monkeypatch.setitem(errors.PLAIN, 404, ("never_heard_of", "Gone."))
    with pytest.raises(AssertionError, match="never_heard_of"):
        api(alice).get(f"{team_repo.api_path}/fork")
