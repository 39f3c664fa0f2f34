"""`…/repos/{repo_slug}/tags`, `…/tags/{tag}`, and tags as `?ref=`."""

from __future__ import annotations

import pytest

from apps.browse.names import Revision, revision
from apps.core.errors import Invalid, NotFound
from apps.git import run
from apps.git.tips import TEXT_MAX
from apps.repos.models import TAGS
from apps.repos.pushes import reconcile
from tests.git.stand_ins import failing_git
from tests.gitclient import Clone

LONG = "m" * 1500


@pytest.fixture
def clone(repo, alice, tmp_path):
    """Three tags in two pushes: an annotated one, then a lightweight one and one of a file."""
    made = Clone(tmp_path / "clone", repo, alice)
    sha = made.commit("main", {"a": "1\n"}, message="Say hello\n\nto everybody")
    made.push("main", "main:rel/1")
    made.server("tag", "-a", "-m", f"Version 1\n\n{LONG}", "rel/1", sha)
    reconcile(repo=repo)
    made.server("tag", "light", sha)
    made.server("tag", "-a", "-m", "A key", "key", made.store("blob", "k"))
    reconcile(repo=repo)
    return made


def names(answer) -> list[str]:
    return [row["name"] for row in answer.gives()["results"]]


@pytest.mark.parametrize("name", ["none", "main", "rel", "-x", ":/x", "..", "%00", "refs/tags/key"])
def test_what_is_no_tag_is_not_found(api, repo, clone, alice, name):
    before = run.spawned
    api(alice).get(f"{repo.api_path}/tags/{name}").fails(404, "not_found")
    assert run.spawned == before


def test_the_tags_are_listed_the_newest_first(api, repo, clone, alice):
    light, key, rel = api(alice).get(f"{repo.api_path}/tags").gives()["results"]
    assert [light["name"], key["name"], rel["name"]] == ["light", "key", "rel/1"]
    sha, shas = clone.head("main"), repo.git.refs()
    commit = {
        "sha": sha,
        "subject": "Say hello",
        "author_name": "alice",
        "committed_at": rel["commit"]["committed_at"],
    }
    assert rel == {
        "name": "rel/1",
        "sha": sha,
        "tag_sha": shas[f"{TAGS}rel/1"],
        "message": f"Version 1\n\n{LONG}"[:TEXT_MAX],
        "message_truncated": True,
        "tagger": {"name": "alice", "email": "alice@example.org", "date": rel["tagger"]["date"]},
        "commit": commit,
        "updated_at": rel["updated_at"],
        "pushed_by_uuid": None,
        "pushed_by_username": None,
        "pushed_by_is_bot": None,
    }
    fields = ("tag_sha", "message", "message_truncated", "tagger")
    assert [light[name] for name in fields] == [None, None, False, None]
    assert (light["sha"], light["commit"]) == (sha, commit)
    assert (key["sha"], key["commit"]) == (None, None)
    assert (key["tag_sha"], key["message"]) == (shas[f"{TAGS}key"], "A key")


def test_one_tag_has_its_whole_message(api, repo, clone, alice, tmp_path, monkeypatch):
    """A branch may have the same name as a tag."""
    listed = api(alice).get(f"{repo.api_path}/tags").gives()["results"]
    before = run.spawned
    for name in ("rel/1", "rel%2F1"):
        record = api(alice).get(f"{repo.api_path}/tags/{name}").gives()
        assert record["message"] == f"Version 1\n\n{LONG}"
        assert record["message_truncated"] is False
        cut = {"message": record["message"][:TEXT_MAX], "message_truncated": True}
        assert {**record, **cut} == listed[2]
    assert run.spawned == before + 1
    assert api(alice).get(f"{repo.api_path}/branches/rel%2F1").gives()["name"] == "rel/1"
    with failing_git(tmp_path, monkeypatch):
        for row in listed[:2]:
            assert api(alice).get(f"{repo.api_path}/tags/{row['name']}").gives() == row
        assert api(alice).get(f"{repo.api_path}/tags/rel/1").gives() == record


def test_a_message_that_git_cannot_give_is_cut_and_says_so(
    api, repo, clone, alice, tmp_path, monkeypatch
):
    huge = clone.store(
        "tag",
        f"object {clone.head('main')}\ntype commit\ntag v\ntagger A <a@b> 1 +0000\n\n"
        + "m" * 3 * 1024 * 1024,
    )
    clone.server("update-ref", f"{TAGS}huge", huge)
    reconcile(repo=repo)
    with failing_git(tmp_path, monkeypatch):
        record = api(alice).get(f"{repo.api_path}/tags/rel/1").gives()
    assert (len(record["message"]), record["message_truncated"]) == (TEXT_MAX, True)
    record = api(alice).get(f"{repo.api_path}/tags/huge").gives()
    assert (len(record["message"]) > 1_000_000, record["message_truncated"]) == (True, True)


def test_tags_have_three_orders_and_are_searched_by_name(api, repo, clone, alice):
    def ordered(query: str) -> list[str]:
        return names(api(alice).get(f"{repo.api_path}/tags?{query}"))

    assert ordered("ordering=name") == ["key", "light", "rel/1"]
    assert ordered("ordering=-name") == ["rel/1", "light", "key"]
    assert ordered("ordering=-updated_at") == ordered("") == ["light", "key", "rel/1"]
    assert ordered("search=L&ordering=name") == ["light", "rel/1"]
    assert ordered("search=tags") == ordered("search=main") == []
    api(alice).get(f"{repo.api_path}/tags?ordering=sha").fails(422, "validation_failed")


def test_an_answer_is_sent_once(api, repo, clone, alice):
    for end in ("", "/light"):
        url = f"{repo.api_path}/tags{end}"
        headers = {"If-None-Match": api(alice).get(url).header("ETag")}
        assert api(alice).send("GET", url, headers=headers).gives(304) is None


def test_a_tag_that_was_not_read_yet_is_named_by_its_object(api, repo, clone, alice):
    shas = repo.git.refs()
    repo.refs.update(peeled_sha=None, commit_subject="", tag_message=None, tagger_name="")
    repo.refs.update(commit_author="", committed_at="", tagger_email="", tagged_at="")
    for row in api(alice).get(f"{repo.api_path}/tags").gives()["results"]:
        sha = shas[TAGS + row["name"]]
        unread = {"sha": sha, "subject": None, "author_name": None, "committed_at": None}
        assert (row["sha"], row["commit"]) == (sha, unread)
        assert (row["tag_sha"], row["message"], row["tagger"]) == (None, None, None)


def test_the_ref_of_a_request_is_the_commit_behind_a_tag(repo, clone):
    sha, before = clone.head("main"), run.spawned
    assert revision(repo, f"{TAGS}rel/1") == Revision(f"{TAGS}rel/1", sha)
    assert revision(repo, "light") == Revision(f"{TAGS}light", sha)
    assert revision(repo, "rel/1") == Revision("refs/heads/rel/1", sha), "a branch comes first"
    for name in ("key", f"{TAGS}key"):
        with pytest.raises(NotFound, match=f'The ref "{name}" does not point to a commit'):
            revision(repo, name)
    with pytest.raises(NotFound, match='There is no ref "none" here'):
        revision(repo, "none")
    for name in ("-x", ":/x", "a..b", "HEAD", "refs/notes/x"):
        with pytest.raises(Invalid):
            revision(repo, name)
    assert run.spawned == before
    repo.refs.update(peeled_sha=None)
    assert revision(repo, f"{TAGS}rel/1").sha == revision(repo, "main").sha == sha
    with pytest.raises(NotFound, match="does not point to a commit"):
        revision(repo, "key")
    assert run.spawned == before + 2
