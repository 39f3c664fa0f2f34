"""A repository of an archive has the records and refs of the one that was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.accounts.models import Deletion, User
from apps.events.models import Ping
from apps.pulls.jobs import complete_next_version, follow_next_comments
from apps.repos.models import Repo
from apps.threads.models import Reply
from apps.threads.queries import SHOWN
from apps.uploads import files
from apps.uploads.models import Upload
from tests.api import Api
from tests.by_actions import MakeByActions
from tests.git.scratch import git as run_git
from tests.moving.conftest import (
    BASE,
    CONTENT,
    changed,
    lines,
    listed,
    record,
    with_line,
)

IDENTITY = {
    "uuid",
    "web_url",
    "api_url",
    "clone_url",
    "path",
    "repo_path",
    "owner_slug",
    "slug",
    "url",
    "user_uuid",
    "created_by_uuid",
    "edited_by_uuid",
    "merged_by_uuid",
    "pushed_by_uuid",
    "uploads",
}
"""Fields that differ in another place, whoever the authors are."""
COMPUTED = {"is_eligible", "reason", "source_repo_path", "is_satisfiable"}
FILES = (
    "threads",
    "thread_versions",
    "replies",
    "reply_versions",
    "pulls",
    "pull_versions",
    "reviews",
    "protections",
    "approvers",
    "uploads",
)


def comparable(archive: Path, name: str, *ignored: str) -> list[Any]:
    uploads = {row["uuid"]: row["sha256"] for row in lines(archive, "uploads")}

    def text(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one for key, one in value.items() if key != "review_uuid"}
        for uuid, digest in uploads.items():
            value = value.replace(uuid, digest) if isinstance(value, str) else value
        return value

    return [
        {key: text(value) for key, value in row.items() if key not in {*IDENTITY, *ignored}}
        for row in lines(archive, name)
    ]


def refs(repo: Repo) -> bytes:
    return run_git(repo.git.path, "for-each-ref", "--format=%(objectname) %(refname)")


@pytest.fixture
def moved(archive: Path, run: Any) -> Repo:
    """The repository in the space of a person; the accounts are those of the same names."""
    run("import_repo", archive, "--user", "alice", "--match-usernames", "--slug", "moved")
    while complete_next_version():
        pass
    while follow_next_comments():
        pass
    return Repo.objects.get(slug="moved")


def test_all_records_and_refs_come_back(archive: Path, moved: Repo, tides: Repo, run, tmp_path):
    again = tmp_path / "again.zip"
    run("export_repo", moved.path, again)
    for name in FILES:
        assert comparable(again, name, *COMPUTED) == comparable(archive, name, *COMPUTED), name
        assert lines(archive, name), name
    own = {"owner_kind", "caller_permission", "fork_count"}
    before, after = record(archive, "repository"), record(again, "repository")
    ignored = {*IDENTITY, *own}
    assert {key for key in before if before[key] != after[key]} <= ignored
    assert refs(moved) == refs(tides)
    assert run_git(moved.git.path, "fsck", "--strict", "--no-dangling") == b""
    moved.refresh_from_db()
    assert moved.last_number == tides.last_number
    sources = {row["source_repo_path"] for row in lines(again, "pulls")}
    assert sources == {moved.path, None}  # the pull from a fork


def test_comments_on_lines_stay_with_their_review(archive: Path, moved: Repo, alice: Api):
    anchors = {row["number"]: row["anchor"] for row in lines(archive, "replies") if row["anchor"]}
    pull = next(row["thread_number"] for row in lines(archive, "replies") if row["anchor"])
    address = f"{moved.api_path}/pulls/{pull}"
    first, placeholder = alice.get(f"{address}/comments").gives()["results"]
    reviews = {row["uuid"] for row in alice.get(f"{address}/reviews").gives()["results"]}
    assert first["anchor"]["review_uuid"] in reviews
    assert anchors[first["number"]]["review_uuid"] not in reviews
    assert first["anchor"]["current"] == anchors[first["number"]]["current"]
    assert placeholder["is_deleted"] and placeholder["anchor"]["snippet"] == []


def test_counters_and_trees_are_those_of_the_source(moved: Repo, tides: Repo):
    def counted(repo: Repo) -> list[Any]:
        own = repo.threads.filter(deleted_at=None).order_by("number")
        columns = ("number", "reply_count", "participant_count", "last_reply_number")
        rows = Reply.objects.filter(SHOWN, thread__in=own).order_by("thread__number", "number")
        tree = ("thread__number", "path", "depth", "live_descendants", "parent__number")
        return [*own.values_list(*columns), *rows.values_list(*tree)]

    assert counted(moved) == counted(tides)


def test_there_is_one_event_and_no_ping(archive: Path, run: Any, events: Any):
    pings = Ping.objects.count()
    with events("repo-imported") as recorded:
        run("import_repo", archive, "--team", "acme", "--slug", "moved", "--match-usernames")
    [event] = recorded
    assert (event.actor, event.target) == (None, {"kind": "repo", "slug": "moved"})
    assert event.data == {"source": f"{BASE}/teams/acme/tide-table"}
    assert Ping.objects.count() == pings


def test_an_upload_has_another_address_and_the_links_lead_to_it(moved: Repo, alice: Api):
    upload = Upload.objects.get(repo=moved)
    threads = alice.get(f"{moved.api_path}/threads?search=Spring").gives()["results"]
    [body] = [thread["body"] for thread in threads if thread["title"] == "Spring"]
    address = f"{BASE}/api/v1/uploads/{upload.uuid}/content"
    assert f"]({address})" in body
    with files.open_file(upload.sha256) as file:
        assert upload.is_used and file.read() == CONTENT


def test_people_go_on_where_they_were(archive: Path, moved: Repo, alice: Api):
    """Approvals of the source do not count, and new ones do. New threads get later numbers."""
    pulls = listed(alice, f"{moved.api_path}/pulls?status=open")
    number = next(row["number"] for row in pulls if row["title"] == "Show heights in feet")
    path = f"{moved.api_path}/pulls/{number}"
    assert "approved" in [row["status"] for row in listed(alice, f"{path}/reviews")]
    assert alice.get(f"{path}/protection").gives()["approval_count"] == 0
    alice.post(f"{path}/merge").fails(409, "approval_required")
    [approver] = [row for row in lines(archive, "approvers") if row["branch"] == "main"]
    token = MakeByActions().token(User.objects.get(username=approver["username"]))
    Api(token).post(f"{path}/reviews", status="approved").gives(201)
    assert alice.post(f"{path}/merge").gives()["merged"]
    last = moved.last_number
    thread = alice.post(f"{moved.api_path}/threads", title="New", body="", kind="issue").gives(201)
    assert thread["number"] == last + 1


def test_strangers_stand_for_people_without_an_account(archive: Path, alice: Api, run: Any):
    said = run("import_repo", archive, "--user", "alice", "--slug", "one", "--map", "bob=Carol")
    assert "imported-alice" in said and "imported-bob" not in said
    repo = Repo.objects.get(slug="one")
    authors = {row["created_by_username"] for row in listed(alice, f"{repo.api_path}/threads")}
    assert {"imported-alice", "carol"} & authors and "alice" not in authors
    again = run("import_repo", archive, "--user", "alice", "--slug", "two")
    assert "imported-alice" not in again and "imported-bob" in again
    alice.get("/users/imported-alice").fails(404, "not_found")
    assert not alice.get("/check-username?username=Imported-zoe").gives(409)["available"]
    assert "imported-alice" not in {row["username"] for row in listed(alice, "/users")}
    stranger = User.objects.get(username="imported-alice")
    assert not stranger.is_active and not stranger.has_usable_password()
    assert not Deletion.objects.filter(users=stranger, is_purging=False).exists()


def test_a_protection_is_never_weaker_than_in_the_source(archive: Path, alice: Api, run: Any):
    run("import_repo", archive, "--user", "alice", "--slug", "one")
    [path] = [Repo.objects.get(slug="one").api_path]
    named = {row["branch"]: row["approver_count"] for row in listed(alice, f"{path}/protections")}
    assert named == {row["branch"]: row["approver_count"] for row in lines(archive, "protections")}
    assert any(named.values())


def test_reporters_are_the_accounts_that_stand_for_them(archive, alice: Api, run, tmp_path):
    """An account of the same username here may be somebody else's."""
    names = {"status_reporters": ["Bob", "zoe"], "required_statuses": ["ci"]}
    file = changed(archive, tmp_path / "a.zip", **with_line(archive, "protections", 0, **names))
    run("import_repo", file, "--user", "alice", "--slug", "one", "--map", "bob=Carol")
    protections = listed(alice, f"{Repo.objects.get(slug='one').api_path}/protections")
    assert protections[0]["status_reporters"] == ["carol", "imported-zoe"]


def test_another_site_with_the_same_names_has_other_people(archive: Path, run: Any, tmp_path):
    run("import_repo", archive, "--user", "alice", "--slug", "one")
    manifest = {**record(archive, "manifest"), "source": "https://elsewhere.example"}
    other = changed(archive, tmp_path / "other.zip", manifest_json=orjson.dumps(manifest))
    assert "imported-alice-2" in run("import_repo", other, "--user", "alice", "--slug", "two")


def test_a_push_while_the_archive_was_written_is_not_lost(archive, alice: Api, run, tmp_path):
    """The records have an older head than the bundle."""
    pulls = lines(archive, "pulls")
    index = next(n for n, row in enumerate(pulls) if row["title"] == "Show heights in feet")
    head, old = pulls[index]["head_sha"], pulls[index]["base_sha"]
    versions = [
        {**row, "head_sha": old} if row["pull_number"] == pulls[index]["number"] else row
        for row in lines(archive, "pull_versions")
    ]
    parts = with_line(archive, "pulls", index, head_sha=old)
    parts["pull_versions_jsonl"] = b"\n".join(map(orjson.dumps, versions))
    run("import_repo", changed(archive, tmp_path / "a.zip", **parts), "--user", "alice")
    path = f"/users/alice/repos/tide-table/pulls/{pulls[index]['number']}"
    assert alice.get(path).gives()["head_sha"] == head
    assert [row["head_sha"] for row in listed(alice, f"{path}/versions")] == [old, head]
