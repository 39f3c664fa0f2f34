"""An installation of an earlier version is upgraded: nothing is lost, and people go on."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from tests.server import Server
from tests.upgrades import BASE_URL, FOLDER, PREVIOUS, unpack
from tests.upgrades.answers import answers, differences
from tests.upgrades.main_job import main_job

CHECK = """
from django.core.management import call_command
call_command("check_repos")
call_command("check_uploads")
"""
VERSION = FOLDER / PREVIOUS


@pytest.fixture
def stored() -> dict[str, Any]:
    """The answers that people got before the upgrade, and their tokens."""
    read: dict[str, Any] = orjson.loads(decompressed("answers.json.xz"))
    return read


@pytest.fixture
def upgraded(tmp_path: Path, stored: dict[str, Any]) -> Iterator[Server]:
    """A server on a copy of the installation, which it has migrated."""
    server = Server(tmp_path, BASE_URL=BASE_URL)
    server.tokens = stored.pop("tokens")
    unpack(decompressed("data.tar.xz"), Path(server.environment["DATA_DIR"]))
    if server.database:
        server.file.unlink()
        with psycopg.connect(server.database, autocommit=True) as connection:
            connection.execute(decompressed("database.sql.xz"))
    with server:
        yield server


def decompressed(name: str) -> bytes:
    return lzma.decompress((VERSION / name).read_bytes())


def test_an_upgrade_loses_nothing_and_people_go_on(upgraded, stored, tmp_path):
    (clones := tmp_path / "clones").mkdir()
    after = answers(upgraded, clones)
    assert [*differences(stored, after)] == []
    printed = upgraded.run(CHECK)
    assert " 0 differences" in printed and "none damaged" in printed, printed
    main_job(upgraded, upgraded, tmp_path / "work", "eve")
    newest = stored["events"][0]["id"]
    new = upgraded.api("eve").get("/events?scope=team:eve&per_page=100").gives()["results"]
    assert min(event["id"] for event in new) > newest
    go_on(upgraded)


def go_on(server: Server) -> None:
    """Old objects take new work: bob replies below an old reply, and alice merges an old pull."""
    nested = {"kind": "comment", "body": "After the upgrade.", "parent_reply_number": 9}
    server.api("bob").post("/teams/acme/repos/tide-table/threads/8/replies", **nested).gives(201)
    merged = server.api("alice").post("/teams/acme/repos/tide-table/pulls/2/merge").gives()
    assert merged["pull"]["status"] == "merged"


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"a": [1, {"b": 2, "new": 3}], "new": 4}, 0),
        ({"a": [1, {"b": 3}]}, 1),
        ({"a": [1, {}]}, 1),
        ({"a": [1]}, 1),
        ({}, 1),
    ],
    ids=["added", "changed", "missing", "shorter", "empty"],
)
def test_a_lost_or_changed_value_is_found_and_an_added_one_allowed(after, found):
    assert len([*differences({"a": [1, {"b": 2}]}, after)]) == found
