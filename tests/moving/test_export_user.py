"""`manage.py export_user`: the data of a person, and nobody else's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson
import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.pulls.models import Pull, Review
from apps.repos.models import Repo
from apps.threads.actions import delete_reply, update_reply, update_thread
from apps.threads.models import Thread
from config.moving.people import write_person
from tests.api import Api
from tests.moving.conftest import BASE, listed
from tests.principals import access_of


def exported(run: Any, path: Path, name: str) -> dict[str, list[Any]]:
    run("export_user", name, path)
    records: dict[str, list[Any]] = {}
    for line in map(orjson.loads, path.read_bytes().splitlines()):
        records.setdefault(line["type"], []).append(line["record"])
    return records


def by_uuid(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: str(record["uuid"]))


def test_the_records_are_those_of_the_api(tides: Repo, alice: Api, run, tmp_path):
    account = alice.get("/users/self").gives()  # first: it changes `last_seen_at`
    mine = exported(run, tmp_path / "alice.jsonl", "alice")
    assert mine["account"] == [account]
    assert mine["account"][0]["email"] == "alice@example.org"
    assert by_uuid(mine["team"]) == by_uuid(listed(alice, "/teams"))
    assert mine["event"] == listed(alice, "/events?scope=self")[::-1]
    assert mine["ping"] == listed(alice, "/pings")
    own = {"created_by_username": "alice"}.items()
    for kind in ("thread", "pull"):
        records = listed(alice, f"/{kind}s")
        own_records = [record for record in records if own <= record.items()]
        assert by_uuid(mine[kind]) == by_uuid(own_records) and own_records
    replies = [
        reply
        for repo in listed(alice, "/teams/acme/repos")
        for thread in numbers(alice, f"/teams/acme/repos/{repo['slug']}")
        for reply in listed(alice, f"/teams/acme/repos/{repo['slug']}/threads/{thread}/replies")
        if own <= reply.items()
    ]
    assert by_uuid(mine["reply"]) == by_uuid(replies) and replies
    [upload] = mine["upload"]
    assert upload == alice.get(f"/uploads/{upload['uuid']}").gives()


def test_former_texts_are_there_too(tides: Repo, alice: Api, make, run, tmp_path):
    """But not those of deleted replies, nor reviews of deleted pulls."""
    bob = User.objects.get(username="bob")
    access = access_of(bob, tides)
    thread = make.thread(tides, by=bob, title="Neap", body="First")
    update_thread(access=access, thread=thread, body="Second")
    replies = [make.reply(thread, by=bob, body=f"Reply {n}") for n in range(2)]
    for reply in replies:
        update_reply(access=access, reply=reply, body=f"Changed {reply.number}")
    delete_reply(access=access, reply=replies[1])
    mine = exported(run, tmp_path / "bob.jsonl", "bob")
    path = f"{tides.api_path}/threads/{thread.number}"
    numbers = {"thread_number": thread.number}
    versions = [row for row in mine["thread_version"] if numbers.items() <= row.items()]
    assert versions == [{**numbers, **row} for row in listed(alice, f"{path}/versions")]
    numbers["reply_number"] = 1
    versions = [
        row for row in mine["reply_version"] if numbers["thread_number"] == row["thread_number"]
    ]
    listed_versions = listed(alice, f"{path}/replies/1/versions")
    assert versions == [{**numbers, **row} for row in listed_versions] and len(versions) == 2


def test_reviews_of_a_deleted_pull_are_left_out(tides: Repo, alice: Api, run, tmp_path):
    before = exported(run, tmp_path / "before.jsonl", "carol")["review"]
    pull = Pull.objects.get(reviews__uuid=before[0]["uuid"])
    Thread.objects.filter(pk=pull.thread_id).update(deleted_at=timezone.now())
    after = exported(run, tmp_path / "after.jsonl", "carol")["review"]
    left = Review.objects.filter(created_by__username="carol").exclude(pull=pull)
    assert {row["uuid"] for row in after} == {str(review.uuid) for review in left}


def numbers(api: Api, repo: str) -> list[int]:
    records = [*listed(api, f"{repo}/threads"), *listed(api, f"{repo}/pulls")]
    return [record["number"] for record in records]


def test_reviews_have_their_stored_fields(tides: Repo, alice: Api, run, tmp_path):
    [review, *_] = exported(run, tmp_path / "carol.jsonl", "carol")["review"]
    path = next(
        f"{repo.api_path}/pulls/{review['pull_number']}/reviews/{review['uuid']}"
        for repo in Repo.objects.all()
        if repo.pulls.filter(reviews__uuid=review["uuid"]).exists()
    )
    whole = alice.get(path).gives()
    assert whole.keys() - review.keys() == {"is_stale", "is_eligible", "reason"}
    assert review.items() <= whole.items() and review["created_by_username"] == "carol"


def test_there_is_no_secret_and_nothing_of_others(tides: Repo, alice: Api, run, tmp_path):
    text = (path := tmp_path / "alice.jsonl")
    mine = exported(run, path, "alice")
    user = User.objects.get(username="alice")
    tokens = user.tokens.all()
    assert len(mine["token"]) == len(tokens) > 0
    for secret in (user.password, *(token.digest for token in tokens)):
        assert secret.encode() not in text.read_bytes()
    for kind in ("thread", "reply", "pull", "upload"):
        assert {record["created_by_username"] for record in mine[kind]} == {"alice"}
    assert {record["actor_user_username"] for record in mine["event"]} == {"alice"}
    assert path.stat().st_mode & 0o77 == 0


def test_texts_in_repositories_that_are_closed_to_the_person_are_left_out(tides, run, tmp_path):
    before = exported(run, tmp_path / "before.jsonl", "carol")
    assert before["review"] and before["event"]
    Repo.objects.update(visibility="private")
    carol = User.objects.get(username="carol")
    carol.memberships.all().delete()
    after = exported(run, tmp_path / "after.jsonl", "carol")
    assert not {"thread", "reply", "pull", "review", "upload", "ping"} & after.keys()
    assert all(record["repo_path"] is None for record in after.get("event", []))


def test_the_number_of_queries_does_not_depend_on_the_number_of_texts(tides, make, tmp_path):
    def queries(name: str) -> tuple[int, Counter[str]]:
        principal = Principal(User.objects.get(username=name))
        with (
            (tmp_path / name).open("wb") as file,
            CaptureQueriesContext(
                connection,
            ) as captured,
        ):
            write_person(principal, BASE, file)
        lines = map(orjson.loads, (tmp_path / name).read_bytes().splitlines())
        return len(captured), Counter(line["type"] for line in lines)

    few, before = queries("alice")
    alice = User.objects.get(username="alice")
    for number in range(5):
        thread = make.thread(tides, by=alice, title=f"Thread {number}")
        make.reply(thread, by=alice)
    many, after = queries("alice")
    assert after["thread"] == before["thread"] + 5 and after["reply"] == before["reply"] + 5
    assert many == few


def test_who_is_not_there_has_no_data(db, run, tmp_path):
    with pytest.raises(CommandError, match="no user"):
        run("export_user", "nobody", tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_people_get_the_same_by_the_api(tides: Repo, alice: Api, run, tmp_path):
    Api(None).get("/users/self/export").fails(401, "not_authenticated")
    whole = alice.client.get("/api/v1/users/self/export", headers=alice.headers)
    assert whole.status_code == 200 and whole["Content-Type"] == "application/jsonl"
    assert whole["Cache-Control"] == "no-store"
    run("export_user", "alice", path := tmp_path / "alice.jsonl")
    lines = [orjson.loads(line) for line in whole.getvalue().splitlines()]
    written = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert without_use(lines) == without_use(written) and len(lines) > 20


def without_use(lines: list[Any]) -> list[Any]:
    """The lines without tokens, which the request used."""
    return [line for line in lines if line["type"] != "token"]


def test_a_limited_token_is_among_the_data_with_its_repositories(
    tides: Repo, alice: Api, make, run, tmp_path
):
    owner = User.objects.get(username="alice")
    make.scoped_token(owner, tides, permission="read")
    tokens = exported(run, tmp_path / "alice.jsonl", "alice")["token"]
    paths = {token["permission"]: token["repo_paths"] for token in tokens}
    assert paths == {"admin": None, "read": ["teams/acme/tide-table"]}


@pytest.mark.parametrize("permission", ["read", "write"])
def test_a_token_that_may_not_list_tokens_exports_none(tides: Repo, db, make, permission):
    owner = User.objects.get(username="alice")
    Api(make.scoped_token(owner, permission=permission)).get("/users/self/export").fails(
        403, "token_scope"
    )


def test_drafts_are_in_the_data_of_their_author_alone(tides: Repo, alice: Api, run, tmp_path):
    pull = tides.pulls.order_by("number")[0]
    draft = f"{tides.api_path}/pulls/{pull.number}/reviews/draft"
    alice.put(draft, body="A secretword.").gives()
    alice.post(f"{draft}/comments", body="Another secretword.", **place_in(pull)).gives(201)
    mine = exported(run, tmp_path / "alice.jsonl", "alice")
    assert mine["draft_review"] == [alice.get(draft).gives()]
    assert len(mine["draft_review"][0]["comments"]) == 1
    assert "draft_review" not in exported(run, tmp_path / "carol.jsonl", "carol")
    run("export_repo", tides.path, tmp_path / "again.zip")
    with ZipFile(tmp_path / "again.zip") as zipped:
        assert not any(b"secretword" in zipped.read(name) for name in zipped.namelist())


def place_in(pull: Pull) -> dict[str, Any]:
    """A line of a file at the head of a pull."""
    head = str(pull.head_sha)
    names = pull.repo.git.git("ls-tree", "-r", "--name-only", head).out.decode().split()
    return {"commit_sha": head, "path": names[0], "line": 1}
