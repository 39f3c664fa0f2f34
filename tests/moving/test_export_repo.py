"""`manage.py export_repo`: the archive has the records of the API, and the commits."""

from __future__ import annotations

import hashlib
from operator import itemgetter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from django.core.management.base import CommandError

from apps.accounts.models import User
from apps.events.models import Event
from apps.git.repo import GitRepo
from apps.repos.models import Repo
from apps.threads.actions import delete_reply, delete_thread
from config.moving.archive import writing
from tests.api import Api
from tests.factories import UserFactory
from tests.git.scratch import git as run_git
from tests.moving.conftest import CONTENT, lines, listed, record
from tests.principals import access_of


@pytest.mark.parametrize("name", ["threads", "pulls", "protections"])
def test_each_line_is_the_record_of_the_api(archive: Path, alice: Api, tides: Repo, name: str):
    records = lines(archive, name)
    own = [row for row in records if row.get("kind") != "pull"]
    api = listed(alice, f"{tides.api_path}/{name}")
    key = itemgetter("uuid")
    assert sorted(own, key=key) == sorted(api, key=key) and own
    if name == "threads":
        pull = next(row for row in records if row["kind"] == "pull")
        one = alice.get(f"{tides.api_path}/threads/{pull['number']}").gives()
        assert pull.items() <= one.items()


def test_what_belongs_to_a_thread_or_pull_has_its_number(archive: Path, alice: Api, tides: Repo):
    of_thread = lines(archive, "replies")
    for thread in lines(archive, "threads"):
        path, number = f"{tides.api_path}/threads/{thread['number']}", thread["number"]
        assert below(of_thread, thread_number=number) == [
            {"thread_number": number, **row} for row in listed(alice, f"{path}/replies")
        ]
        assert below(lines(archive, "thread_versions"), thread_number=number) == [
            {"thread_number": number, **row} for row in listed(alice, f"{path}/versions")
        ]
    for pull in lines(archive, "pulls"):
        path, number = f"{tides.api_path}/pulls/{pull['number']}", pull["number"]
        assert below(lines(archive, "reviews"), pull_number=number) == listed(
            alice, f"{path}/reviews"
        )
        assert below(lines(archive, "pull_versions"), pull_number=number) == [
            {"pull_number": number, **row} for row in listed(alice, f"{path}/versions")
        ]
    edited = next(row for row in of_thread if row.get("version", 1) > 2)
    numbers = {"thread_number": edited["thread_number"], "reply_number": edited["number"]}
    versions = below(lines(archive, "reply_versions"), **numbers)
    assert [row["version"] for row in versions] == [1, 2, 3]


def below(records: list[Any], **numbers: int) -> list[Any]:
    return [row for row in records if numbers.items() <= row.items()]


def test_events_uploads_and_the_repository_are_those_of_the_api(
    archive: Path, alice: Api, tides: Repo
):
    events = listed(alice, f"/events?scope=repo:{tides.path}")
    assert lines(archive, "events") == events[::-1]
    made = record(archive, "manifest")
    assert (made["format"], made["source"]) == (1, "http://testserver")
    assert (made["path"], made["last_number"]) == (tides.path, tides.last_number)
    assert made["newest_event"] == Event.objects.newest_id()
    assert made["counts"]["events"] == len(events)
    assert record(archive, "repository") == alice.get(tides.api_path).gives()
    [upload] = lines(archive, "uploads")
    assert upload == alice.get(f"/uploads/{upload['uuid']}").gives()
    with ZipFile(archive) as file:
        content = file.read(f"uploads/{upload['sha256']}")
    assert content == CONTENT and hashlib.sha256(content).hexdigest() == upload["sha256"]


def test_the_bundle_has_all_refs(archive: Path, tides: Repo, tmp_path: Path):
    with ZipFile(archive) as file:
        (tmp_path / "bundle").write_bytes(file.read("repository.bundle"))
    heads = run_git(tides.git.path, "for-each-ref", "--format=%(objectname) %(refname)")
    made = GitRepo(tmp_path / "made.git")
    made.create()
    listed_refs = run_git(made.path, "bundle", "list-heads", str(tmp_path / "bundle"))
    assert sorted(listed_refs.splitlines()) == sorted(heads.splitlines())
    assert b"refs/pull/" in heads and b"refs/versions/" in heads


def test_the_reader_has_to_see_the_repository(tides: Repo, run: Any, tmp_path: Path):
    tides.visibility = "private"
    tides.save(update_fields=["visibility"])
    UserFactory.create(username="mallory")
    path = tmp_path / "a.zip"
    with pytest.raises(CommandError, match="access"):
        run("export_repo", tides.path, path, "--as", "mallory")
    with pytest.raises(CommandError, match="no user"):
        run("export_repo", tides.path, path, "--as", "nobody")
    with pytest.raises(CommandError, match="There is no repository teams/acme/none"):
        run("export_repo", "teams/acme/none", path)
    assert not path.exists()
    run("export_repo", tides.path, path)
    assert record(path, "manifest")["exported_as"] == "alice"


def test_the_reader_sees_no_path_that_is_secret(tides: Repo, run: Any, tmp_path: Path):
    """carol cannot read the fork of dave any more."""
    Repo.objects.filter(slug="tide-table", owner_user__isnull=False).update(visibility="private")
    run("export_repo", tides.path, tmp_path / "carol.zip", "--as", "carol")
    paths = {pull["source_repo_path"] for pull in lines(tmp_path / "carol.zip", "pulls")}
    assert paths == {tides.path, None}


def test_an_archive_is_private_complete_or_absent(tmp_path: Path, archive: Path, tides, run):
    assert archive.stat().st_mode & 0o77 == 0
    with pytest.raises(CommandError, match="exists already"):
        run("export_repo", tides.path, archive)
    path = tmp_path / "half.zip"
    with pytest.raises(KeyError), writing(path) as half:
        half.add_record("repository.json", {})
        raise KeyError
    assert not path.exists() and not list(tmp_path.glob("*.tmp"))


def test_an_empty_repository_has_no_bundle(db, make, run, tmp_path, settings):
    owner = UserFactory.create(username="vera")
    repo = make.repo(owner, "empty", by=owner)
    run("export_repo", repo.path, tmp_path / "empty.zip")
    with ZipFile(tmp_path / "empty.zip") as file:
        assert "repository.bundle" not in file.namelist()
    assert lines(tmp_path / "empty.zip", "threads") == []


def test_what_is_deleted_is_left_out(tides: Repo, make: Any, run: Any, tmp_path: Path):
    """A thread with its replies, and the former texts of a deleted reply above a live one. The
    number of the deleted thread is not given again, here or elsewhere.
    """
    word, alice = "Xylophone", User.objects.get(username="alice")
    access = access_of(alice, tides)
    thread = make.thread(tides, by=alice, title="Kept", body="")
    reply = make.reply(thread, by=alice, body=word)
    make.reply(thread, by=alice, to=reply, body="Kept")
    delete_reply(access=access, reply=reply)
    gone = make.thread(tides, by=alice, title=word, body=word)
    make.reply(gone, by=alice, body=word)
    delete_thread(access=access, thread=gone)
    run("export_repo", tides.path, path := tmp_path / "a.zip")
    for name in ("threads", "thread_versions", "replies", "reply_versions"):
        assert word not in str(lines(path, name)), name
    run("import_repo", path, "--user", "alice")
    there = Repo.objects.get(owner_user=alice)
    assert make.thread(there, by=alice, title="New", body="").number == gone.number + 1
