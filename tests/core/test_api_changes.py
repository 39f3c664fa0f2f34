"""The API only grows: `promises.txt` has what releases promised, docs/api-changes.md the news.

With a release, add its promises: `REWRITE=1 bin/test -n0 tests/core/test_api_changes.py`. This
removes none. Delete a line by hand once the deprecation of docs/api-changes.md is over.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.promises import NEEDS, demands, operations_of, promises
from tests.routes import described
from tests.server import ROOT

pytestmark = pytest.mark.once

STORED = Path(__file__).with_name("promises.txt")
PAGE = (ROOT / "docs" / "api-changes.md").read_text()


def stored() -> set[str]:
    if os.environ.get("REWRITE"):
        lines = {*STORED.read_text().splitlines()} | promises(described()) | demands(described())
        STORED.write_text("".join(f"{line}\n" for line in sorted(lines)))
    return {*STORED.read_text().splitlines()}


def broken(document: dict[str, Any]) -> set[str]:
    """The stored promises that a document breaks, and its new demands of requests known before."""
    lines = stored()
    promised = {line for line in lines if NEEDS not in line}
    subjects = promised | {line.partition(".")[0] for line in promised}
    new = {line for line in demands(document) - lines if line.partition(NEEDS)[0] in subjects}
    return (promised - promises(document)) | new


def test_the_api_keeps_the_promises_of_its_releases():
    """If this fails, the change breaks clients: docs/api-changes.md says how to make it."""
    assert broken(described()) == set()


def schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    one: dict[str, Any] = document["components"]["schemas"][name]
    return one


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "GET /teams": lambda it: it["paths"]["/teams"].pop("get"),
    "GET /teams takes query search": lambda it: it["paths"]["/teams"]["get"].update(parameters=[]),
    "TeamRecord.name: string": lambda it: schema(it, "TeamRecord")["properties"].pop("name"),
    "TeamRecord.name is always sent": lambda it: schema(it, "TeamRecord").pop("required"),
    "TeamRecord.uuid: string": lambda it: schema(it, "TeamRecord")["properties"].update(
        uuid={"type": ["string", "null"]}
    ),
    "CreateTeamRequest needs colour": lambda it: schema(it, "CreateTeamRequest")["required"].append(
        "colour"
    ),
    "GET /teams needs search": lambda it: it["paths"]["/teams"]["get"]["parameters"].append(
        {"in": "query", "name": "search", "required": True}
    ),
    "TeamRole has viewer": lambda it: schema(it, "TeamRole")["enum"].remove("viewer"),
    "code slug_taken": lambda it: it["components"]["examples"].pop("slug_taken"),
}


@pytest.mark.parametrize("promise", CHANGES)
def test_a_change_that_breaks_clients_is_noticed(promise):
    document = copy.deepcopy(described())
    CHANGES[promise](document)
    assert promise in broken(document)


def test_additions_break_nothing():
    document = copy.deepcopy(described())
    document["paths"]["/flags"] = {"post": document["paths"]["/teams"]["post"]}
    schema(document, "TeamRecord")["properties"]["colour"] = {"type": "string"}
    schema(document, "CreateTeamRequest")["required"] = ["name"]
    email = schema(document, "CreateInviteRequest")["properties"]["email"]
    email["type"] = ["string", "null"]
    document["components"]["schemas"]["CreateFlagRequest"] = {"required": ["name"]}
    assert broken(document) == set()


# The page


def test_the_newest_version_on_the_page_is_that_of_the_document():
    newest = re.search(r"^## (\S+)", PAGE.partition("# Versions\n")[2], re.MULTILINE)
    assert newest and newest[1] == described()["info"]["version"]


def test_every_address_that_is_new_since_the_last_release_stands_on_the_page():
    addresses = {name.partition(" ")[2] for name, _ in operations_of(described())}
    former = {line.partition(" ")[2] for line in stored()}
    missing = {path for path in addresses - former if f" {path}`" not in PAGE}
    assert missing == set()


def test_every_deprecated_field_stands_on_the_page():
    deprecated = {
        field
        for one in described()["components"]["schemas"].values()
        for field, inner in one.get("properties", {}).items()
        if inner.get("deprecated")
    }
    assert deprecated == {"pull_number"}
    assert "`pull_number`" in PAGE
