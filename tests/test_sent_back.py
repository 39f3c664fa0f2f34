"""A record can be sent back unchanged, as far as its fields are writable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.repos.models import Visibility
from tests.permission_cases import Cell, PermissionCase
from tests.routes import Routed, described, described_paths, routed
from tests.sample_data import everything

pytestmark = pytest.mark.once
NOT_IN_RECORDS = {"resume"}
"""Fields of requests that tell what to do, and are not read back."""


def writable() -> Iterator[Routed]:
    """The operations that change the record at the same address."""
    for one in routed():
        is_update = one.method in {"PUT", "PATCH"} and one.request is not None
        if is_update and "get" in described_paths()[one.path]:
            yield one


def cell_of(one: Routed) -> Cell:
    owner = "user" if one.path.startswith("/users/{username}") else "team"
    path = one.path.replace("/users/{username}/repos", "/{owner}/repos")
    path = path.replace("/teams/{team_slug}/repos", "/{owner}/repos")
    is_of_person = "members" in path or path.startswith("/users/{username}")
    case = "a member" if is_of_person else "" if path.endswith("/replies") else "own"
    case = "a bot" if "/bots/" in path else case
    return Cell(f"{one.method} {path}", case, None, "St", owner, Visibility.PRIVATE, 200)


WITH_BODY = [one for one in routed() if one.request is not None]


@pytest.mark.parametrize("one", WITH_BODY, ids=str)
def test_the_example_of_a_request_is_understood_by_the_server(sample, db, tmp_path_factory, one):
    case = PermissionCase(cell_of(one), sample, tmp_path_factory)
    method, path = case.request()
    sample.make.repo(sample.acme, "hello", by=sample.alice)  # examples name it
    [name] = one.described["requestBody"]["content"]["application/json"]["examples"]
    body = {**described()["components"]["examples"][name]["value"]}
    if "repo_paths" in body:
        body["repo_paths"] = [repo.path for repo in sample.repos.values()][:1]
    if path.endswith("/comments"):  # the lines have to be there
        body |= {"commit_sha": case.commit(), "path_base64": "UkVBRE1F", "start_line": 1, "line": 1}
        del body["review_uuid"]
    answer = sample.api("sam").send(method, path, body)
    assert answer.status not in {400, 422}, answer.json


def test_the_example_of_an_idempotency_key_is_another_for_each_operation():
    keys = [
        parameter["example"]
        for one in routed()
        for parameter in one.described.get("parameters", [])
        if parameter["name"] == "Idempotency-Key"
    ]
    assert len({*keys}) == len(keys) > 20


@pytest.mark.parametrize("one", [*writable()], ids=str)
def test_a_record_can_be_sent_back_as_it_was_read(sample, db, tmp_path_factory, one):
    method, path = PermissionCase(cell_of(one), sample, tmp_path_factory).request()
    client = sample.api("sam")
    record = client.get(path).gives()
    assert one.request is not None
    fields = {*one.request().fields} - NOT_IN_RECORDS
    before = everything()
    answer = client.send(method, path, {name: record[name] for name in fields}).gives()
    assert {**record, **answer} == record
    assert everything() == before


PATCHES = [one for one in writable() if one.method == "PATCH"]


@pytest.mark.parametrize("one", PATCHES, ids=str)
def test_an_empty_patch_changes_nothing(sample, db, tmp_path_factory, one):
    method, path = PermissionCase(cell_of(one), sample, tmp_path_factory).request()
    client = sample.api("sam")
    before, record = everything(), client.get(path).gives()
    assert {**record, **client.send(method, path, {}).gives()} == record
    assert everything() == before
