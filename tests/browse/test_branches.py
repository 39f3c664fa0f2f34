"""`…/repos/{repo_slug}/branches`, `…/branches/{branch}`"""

from __future__ import annotations

import pytest
from django.db import connection

from apps.browse import refs
from apps.git import run
from apps.repos.models import BRANCHES, Ref, Repo, Visibility
from tests.factories import ForkFactory, TeamFactory, UserFactory
from tests.git.stand_ins import failing_git, slow_git
from tests.gitclient import Clone
from tests.plans import planned

ABSENT = "1" * 40


@pytest.fixture
def clone(repo, alice, tmp_path):
    made = Clone(tmp_path / "clone", repo, alice)
    made.commit("main", {"a": "1\n"}, message="Say hello\n\nto everybody")
    made.commit("topic/one", {"b": "1\n"}, onto="main", message="Add b")
    made.commit("topic/one", {"b": "2\n"})
    made.commit("main", {"a": "2\n"}, message="Say more")
    made.push("main", "topic/one")
    return made


def names(answer) -> list[str]:
    return [row["name"] for row in answer.gives()["results"]]


NO_BRANCHES = ["none", "topic", "-x", "--output=x", ":/x", "@%7B-1%7D", "..", "a//b", "%00"]
NO_BRANCHES += ["x%0Ay", "refs/heads/main", ABSENT, "HEAD", "main%20", "main/", "%FF", "x" * 3000]


@pytest.mark.parametrize("name", NO_BRANCHES)
def test_what_is_no_branch_is_not_found(api, repo, clone, alice, name):
    before = run.spawned
    api(alice).get(f"{repo.api_path}/branches/{name}").fails(404, "not_found")
    assert run.spawned == before


def test_a_branch_that_is_not_there_is_named(api, repo, clone, alice):
    said = api(alice).get(f"{repo.api_path}/branches/topic/two").fails(404, "not_found")
    assert said == 'There is no branch "topic/two" here.'


def test_the_branches_are_listed_by_name(api, make, repo, clone, alice):
    protection = make.protection(repo, "main", by=alice)
    pull = make.pull(repo, by=alice, source="topic/one")
    [main, topic] = api(alice).get(f"{repo.api_path}/branches").gives()["results"]
    assert main == {
        "name": "main",
        "sha": clone.head("main"),
        "is_default": True,
        "is_protected": True,
        "open_pull_numbers": [],
        "commit": {
            "sha": clone.head("main"),
            "subject": "Say more",
            "author_name": "alice",
            "committed_at": main["commit"]["committed_at"],
        },
        "updated_at": main["updated_at"],
        "pushed_by_uuid": str(alice.uuid),
        "pushed_by_username": "alice",
        "pushed_by_is_bot": False,
    }
    assert main["commit"]["committed_at"].endswith("+00:00")
    expected = ("topic/one", False, False)
    assert (topic["name"], topic["is_default"], topic["is_protected"]) == expected
    assert topic["open_pull_numbers"] == [pull.number]
    row = api(alice).get(f"{repo.api_path}/branches/main").gives()
    own = [{"uuid": str(protection.uuid), "branch": "main"}]
    assert row == {**main, "ahead_by": 0, "behind_by": 0, "protections": own}


def test_a_branch_with_slashes_is_read_by_either_form(api, repo, clone, alice):
    for name in ("topic/one", "topic%2Fone"):
        record = api(alice).get(f"{repo.api_path}/branches/{name}").gives()
        assert record["name"] == "topic/one"
        assert (record["ahead_by"], record["behind_by"]) == (2, 1)


def test_git_counts_once_how_far_a_branch_is(api, repo, clone, alice, tmp_path, monkeypatch):
    url, before = f"{repo.api_path}/branches/topic/one", run.spawned
    first = api(alice).get(url).gives()
    assert run.spawned == before + 1
    with failing_git(tmp_path, monkeypatch):
        assert api(alice).get(url).gives() == first
    clone.commit("main", {"a": "3\n"})
    clone.push("main")
    assert api(alice).get(url).gives()["behind_by"] == 2


def test_what_git_cannot_count_is_null(api, repo, clone, alice, tmp_path, monkeypatch):
    url = f"{repo.api_path}/branches/topic/one"

    def distance():
        record = api(alice).get(url).gives()
        return record["ahead_by"], record["behind_by"]

    with failing_git(tmp_path, monkeypatch):
        assert distance() == (None, None)
    assert distance() == (2, 1)
    clone.commit("topic/one", {"b": "3\n"})
    clone.push("topic/one")
    monkeypatch.setattr(refs, "PATIENCE", 0.5)
    with slow_git(tmp_path, monkeypatch):
        assert distance() == (None, None)
    assert distance() == (None, None), "git is not asked again soon"
    Repo.objects.filter(pk=repo.pk).update(default_branch="gone")
    assert distance() == (None, None)


def test_the_lists_answer_when_git_fails(api, repo, clone, alice, tmp_path, monkeypatch):
    clone.server("tag", "v1.0", clone.head("main"))
    clone.push("main:other")
    before = run.spawned
    with failing_git(tmp_path, monkeypatch):
        with pytest.raises(run.GitError):
            repo.git.refs()
        for end in ("branches", "tags", "branches?search=t&ordering=-updated_at"):
            url = f"{repo.api_path}/{end}"
            tag = api(alice).get(url).header("ETag")
            again = api(alice).send("GET", url, headers={"If-None-Match": tag})
            assert again.gives(304) is None
    assert run.spawned == before + 1, "the one that shows that git fails"


def test_an_answer_is_sent_once(api, repo, clone, alice):
    for end in ("", "/topic/one"):
        url = f"{repo.api_path}/branches{end}"
        first = api(alice).get(url)
        assert first.header("Cache-Control") == "private, no-cache"
        headers = {"If-None-Match": first.header("ETag")}
        assert api(alice).send("GET", url, headers=headers).gives(304) is None
        clone.commit("topic/one", {"c": end})
        clone.push("topic/one")
        assert api(alice).send("GET", url, headers=headers).gives(200) != first.json


def test_branches_are_found_by_a_part_of_their_name_alone(api, repo, clone, alice):
    def search(text: str) -> list[str]:
        return names(api(alice).get(f"{repo.api_path}/branches?search={text}"))

    clone.push("main:Größe")
    assert search("TOPIC") == search("c/o") == ["topic/one"]
    assert search("GRÖSSE") == search("heads") == search("refs") == search("t%25o") == []
    assert search("GRÖ") == ["Größe"]


def test_branches_have_three_orders(api, repo, clone, alice):
    clone.push("main:a")
    clone.commit("main", {"a": "3\n"})
    clone.push("main")

    def ordered(ordering: str) -> list[str]:
        return names(api(alice).get(f"{repo.api_path}/branches?ordering={ordering}"))

    assert ordered("name") == names(api(alice).get(f"{repo.api_path}/branches"))
    assert ordered("name") == ["a", "main", "topic/one"]
    assert ordered("-name") == ["topic/one", "main", "a"]
    assert ordered("-updated_at") == ["main", "a", "topic/one"]
    api(alice).get(f"{repo.api_path}/branches?ordering=sha").fails(422, "validation_failed")
    page = api(alice).get(f"{repo.api_path}/branches?ordering=-name&per_page=2").gives()
    assert [row["name"] for row in page["results"]] == ["topic/one", "main"]
    assert names(api(alice).get(page["next"])) == ["a"]


def test_a_branch_is_gone_with_its_deletion_and_an_empty_repository_has_none(
    api, make, repo, clone, alice
):
    clone.push(":topic/one")
    assert names(api(alice).get(f"{repo.api_path}/branches")) == ["main"]
    api(alice).get(f"{repo.api_path}/branches/topic/one").fails(404, "not_found")
    clone.push(":main")
    assert names(api(alice).get(f"{repo.api_path}/branches")) == []
    empty = make.repo(alice, "empty", by=alice)
    assert names(api(alice).get(f"{empty.api_path}/branches")) == []
    api(alice).get(f"{empty.api_path}/branches/main").fails(404, "not_found")


def test_who_pushed_is_who_pushed_last(api, repo, clone, alice):
    ada = UserFactory.create(username="ada")
    clone.commit("main", {"a": "3\n"})
    clone.push("main", by=ada)
    Ref.objects.filter(full_name=f"{BRANCHES}topic/one").update(pushed_by=None)
    rows = api(alice).get(f"{repo.api_path}/branches").gives()["results"]
    assert [row["pushed_by_username"] for row in rows] == ["ada", None]
    assert [row["pushed_by_uuid"] for row in rows] == [str(ada.uuid), None]


def test_what_is_not_read_yet_is_null_beside_the_commits_name(api, repo, clone, alice):
    repo.refs.update(peeled_sha=None, commit_subject="", commit_author="", committed_at="")
    for row in api(alice).get(f"{repo.api_path}/branches").gives()["results"]:
        unread = {"sha": row["sha"], "subject": None, "author_name": None, "committed_at": None}
        assert row["commit"] == unread


def test_pulls_of_others_are_not_named(api, make, alice, carol, tmp_path):
    """Pulls from a fork into this repository, and from this one into its upstream."""
    upstream = make.repo(alice, "up", by=alice, visibility=Visibility.PUBLIC)
    clone = Clone(tmp_path / "clone", upstream, alice)
    clone.commit("main", {"a": "1\n"})
    clone.push("main", "main:feature")
    ForkFactory.create(upstream=upstream, owner=carol, created_by=carol)
    fork = Repo.objects.get(upstream=upstream)
    Ref.objects.create(repo=fork, full_name=f"{BRANCHES}feature", sha=clone.head("main"))
    pull = make.pull(upstream, by=alice, source="feature")
    closed = make.pull(upstream, by=alice, source="main", target="feature")
    closed.__class__.objects.filter(pk=closed.pk).update(status="closed")
    closed.__class__.objects.filter(pk=pull.pk).update(source_repo=fork)
    for repo in (upstream, fork):
        results = api(carol).get(f"{repo.api_path}/branches?search=feature").gives()["results"]
        assert [row["open_pull_numbers"] for row in results] == [[]]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own plan")
def test_open_pulls_of_branches_are_found_among_many_that_have_ended(api, repo, clone, alice):
    for end in ("branches", "branches/main"):
        with planned('"source_branch" IN') as steps:
            api(alice).get(f"{repo.api_path}/{end}").gives()
        assert "USING INDEX pull_source " in steps[0], steps


def test_a_former_slug_leads_on_to_a_branch_of_any_name(api, make, alice, tmp_path):
    """The name is encoded, because `#` and `%` have other meanings in a URL."""
    team = TeamFactory.create(slug="core", owner=alice)
    repo = make.repo(team, "api", by=alice)
    clone = Clone(tmp_path / "clone", repo, alice)
    clone.commit("main", {"a": "1\n"})
    clone.push("main", "main:a/b#1%2Fé")
    before = repo.api_path
    api(alice).put(before, name="Api", slug="engine").gives()
    answer = api(alice).get(f"{before}/branches/a%2Fb%231%252F%C3%A9?x=1")
    assert answer.status == 301
    location = answer.header("Location")
    path = "/teams/core/repos/engine/branches/a/b%231%252F%C3%A9?x=1"
    assert location == f"http://testserver/api/v1{path}"
    assert api(alice).get(location).gives()["name"] == "a/b#1%2Fé"
