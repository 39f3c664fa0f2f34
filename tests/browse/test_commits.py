"""`GET …/commits` and `…/commits/{sha}`"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apps.accounts.models import User
from apps.browse import commits as browse_commits
from apps.browse.models import GitCache
from apps.git import batch, run
from apps.git.diff import FILES_MAX
from apps.git.run import LIMITS, GitTimeout, Limits
from tests.browse.code import SUBMODULE, push
from tests.git.scratch import git
from tests.test_queries import costing
from tests.web.page_client import PageClient

RESOURCE = "/commits"
MAIN = "refs/heads/main"
MIB = 1024 * 1024


@pytest.fixture
def line(repo, code, alice):
    """Five commits on `main`, newest first; every second one changes `a`."""
    shas: list[str] = []
    for number in range(5):
        files = {b"a": b"%d" % (number // 2), b"d/caf\xe9": b"x", b"n": b"%d" % number}
        email = "ALICE@example.org" if number % 2 else "nobody@example.org"
        sha = code.commit_with(
            files, *shas[:1], message=f"commit {number}\n", email=email, at=1_700_000_000 + number
        )
        shas.insert(0, sha)
    User.objects.filter(pk=alice.pk).update(
        email="alice@example.org", email_key="alice@example.org"
    )
    push(repo, MAIN, shas[0], by=alice)
    return shas


def shas(answer):
    return [row["sha"] for row in answer.gives()["results"]]


def test_what_is_no_commit_is_refused(ask, code, line):
    tag, tree = code.tag_of(line[0]), code.tree_with({b"a": b"1"})
    for name in ("main", line[0][:39], line[0] + "0", line[0].upper(), "HEAD", "-x"):
        ask(f"/{name}").fails(422, "invalid_ref")
    for name in ("1" * 40, tag, tree, code.store("blob", [b"0"], 1)):
        ask(f"/{name}").fails(404, "not_found")
    ask("?ref=a..b").fails(422, "invalid_ref")
    ask("?path=a//b").fails(422, "invalid_path")
    ask("?path_base64=%21").fails(422, "invalid_path")
    assert "ref" in ask("?ref=nothing").fails(404, "not_found")
    assert "ref" in ask(f"?ref={'1' * 40}").fails(404, "not_found")
    assert "ref" in ask(f"?ref={tree}").fails(404, "not_found")
    assert "since" in ask("?since=yesterday").fails(422, "validation_failed")
    assert "until" in ask("?until=").fails(422, "validation_failed")
    ask(f"/{line[0]}?page=0").fails(422, "validation_failed")


def test_an_empty_repository_has_no_commits(ask, repo):
    assert ask().gives() == {"results": [], "next": None, "previous": None}
    ask("?ref=main").fails(404, "not_found")


def test_commits_are_listed_newest_first(ask, repo, line):
    page = ask().gives()
    assert (page["next"], page["previous"]) == (None, None)
    assert [row["sha"] for row in page["results"]] == line
    newest, last = page["results"][0], page["results"][-1]
    assert newest["parents"] == [line[1]]
    assert last["parents"] == []
    person = {"name": "Ada", "email": "nobody@example.org", "username": None}
    assert newest["author"] == {**person, "date": "2023-11-15T00:13:24+02:00"}
    assert newest["committer"] == newest["author"]
    assert (newest["subject"], newest["message"]) == ("commit 4", "commit 4\n")
    assert newest["api_url"] == f"http://testserver/api/v1{repo.api_path}/commits/{line[0]}"
    assert newest["web_url"] == f"http://testserver/{repo.path}/commits/{line[0]}"
    assert [row["author"]["username"] for row in page["results"]] == [None, "alice"] * 2 + [None]


def test_who_is_gone_is_not_named(ask, api, repo, line, alice, bob):
    User.objects.filter(pk=alice.pk).update(is_active=False)
    type(repo).objects.update(visibility="internal")
    results = api(bob).get(f"{repo.api_path}/commits").gives()["results"]
    assert {row["author"]["username"] for row in results} == {None}


def test_filters_are_taken_as_they_are_written(ask, line):
    a, caf = [line[0], line[2], line[4]], base64.urlsafe_b64encode(b"d/caf\xe9").decode()
    assert shas(ask("?path=a")) == shas(ask("?path=a&per_page=3")) == a
    assert shas(ask(f"?path_base64={caf}")) == shas(ask("?path=d")) == [line[4]]
    assert shas(ask("?author=alice%40EXAMPLE")) == [line[1], line[3]]
    assert shas(ask("?author=.%2A")) == shas(ask("?path=%2A")) == []
    assert shas(ask("?author=alice&path=a")) == []
    assert shas(ask("?author=nobody%0Aalice")) == shas(ask("?author=%0A")) == []
    at = "2023-11-14T22:13:22"  # the time of the third commit, in UTC
    assert shas(ask(f"?since={at}")) == shas(ask(f"?since={at}Z")) == line[:3]
    assert shas(ask(f"?until={at}%2B00:00")) == line[2:]
    assert shas(ask(f"?since={at}&until={at}")) == [line[2]]
    assert shas(ask("?until=1900-01-01")) == shas(ask("?since=3000-01-01")) == []
    assert shas(ask("?page=1000000000&per_page=100")) == []


def test_what_takes_long_is_asked_once(ask, line):
    assert shas(ask("?path=a")) == [line[0], line[2], line[4]]
    first, before = GitCache.objects.count(), run.spawned
    assert shas(ask("?path=a")) == [line[0], line[2], line[4]]
    assert (GitCache.objects.count(), run.spawned) == (first, before)


def test_nothing_is_asked_again_while_the_head_stays(ask, api, repo, code, line, alice):
    client, person = PageClient(alice), api(alice)
    pages = [f"/{repo.path}/commits{query}" for query in ("", "?ref=main", f"?ref={line[0]}")]
    paths = [f"{repo.api_path}/commits{query}" for query in ("", "?per_page=2", "?path=a")]
    paths.append(person.get(paths[1]).gives()["next"])

    def read() -> tuple[int, list[Any]]:
        batch.end_idle()  # a git that stays would answer without being counted
        with costing() as cost:
            answers = [client.get(page).gives().text for page in pages]
            answers += [person.get(path).gives()["results"] for path in paths]
        return cost.git, answers

    (first, answers), again = read(), read()
    assert first > 0 and again == (0, answers)
    push(repo, MAIN, code.commit_with({}, line[0]), by=alice)
    assert read()[0] > 0


def test_what_git_cannot_tell_in_time_is_not_asked_again(ask, line, monkeypatch):
    def late(*_, **__):
        raise GitTimeout("git log took more than 5 s")

    monkeypatch.setattr(browse_commits, "log", late)
    assert "less" in ask("?author=x").fails(422, "too_expensive")
    monkeypatch.undo()
    before = run.spawned
    ask("?author=x").fails(422, "too_expensive")
    assert run.spawned == before
    assert shas(ask("?author=zz")) == []


def test_messages_that_are_too_long_are_refused_in_words(ask, repo, code, line, alice):
    sha = code.commit_with({}, line[0], message="x" * 30 * MIB)
    push(repo, MAIN, code.commit_with({}, sha), by=alice)
    assert "per_page" in ask().fails(422, "too_expensive")
    ask(f"/{sha}").fails(422, "too_expensive")
    assert len(shas(ask(f"?ref={line[0]}"))) == 5


def test_pages_do_not_shift_under_a_push(ask, repo, code, line, alice):
    expected = git(repo.git.path, "rev-list", "main").decode().split()
    page = ask("?per_page=2").gives()
    results = page["results"]
    while page["next"]:
        assert f"ref={line[0]}" in page["next"]
        head = repo.git.ref(MAIN)
        push(repo, MAIN, code.commit_with({b"p": b"%d" % len(results)}, head), by=alice)
        page = ask(page["next"].partition("/commits")[2]).gives()
        assert "page=" in page["previous"]
        results += page["results"]
    assert [row["sha"] for row in results] == expected == line


def test_a_commit_says_what_it_changes(ask, repo, code, line, alice):
    files = {b"a": b"2\n", b"caf\xe9": b"", b"lib": (SUBMODULE, b"1" * 40), b"n2": b"4"}
    sha = code.commit_with(files, line[0], line[3], header="gpgsig x")
    record = ask(f"/{sha}").gives()  # no ref reaches it
    assert record["parents"] == [line[0], line[3]]
    assert (record["is_signed"], record["pull_numbers"]) == (True, [])
    assert record["tree_sha"] == code.tree_with(files)
    assert record["stats"] == {"additions": 2, "deletions": 2, "changed_files": 5}
    page = record["files"]
    assert (page["next"], page["previous"], page["files_truncated"]) == (None, None, False)
    assert [(row["path"], row["status"], row["previous_path"]) for row in page["results"]] == [
        ("a", "modified", None),
        ("caf\ufffd", "added", None),
        ("d/caf\ufffd", "removed", None),
        ("lib", "added", None),
        ("n2", "renamed", "n"),
    ]
    assert page["results"][1]["path_base64"] == "Y2Fm6Q"
    again, before = ask(f"/{sha}?per_page=2&page=2").gives()["files"], run.spawned
    assert again["results"] == page["results"][2:4]
    assert again["next"].endswith(f"/commits/{sha}?per_page=2&page=3")
    ask(f"/{sha}?per_page=2&page=3")
    assert run.spawned == before
    first = ask(f"/{line[4]}").gives()
    assert (first["stats"]["changed_files"], first["is_signed"]) == (3, False)


def test_a_commit_names_the_pulls_that_it_heads(ask, make, repo, code, line, alice):
    sha = code.commit_with({b"new": b""}, line[0])
    push(repo, "refs/heads/feature", sha, by=alice)
    pull = make.pull(repo, by=alice)
    assert ask(f"/{sha}").gives()["pull_numbers"] == [pull.number]
    assert ask(f"/{line[0]}").gives()["pull_numbers"] == []


def test_a_commit_with_many_files_says_what_is_cut(ask, code, line, monkeypatch):
    sha = code.commit_with({b"%05d" % number: b"" for number in range(FILES_MAX + 5)})
    record = ask(f"/{sha}?per_page=100&page={FILES_MAX // 100}").gives()
    assert record["stats"]["changed_files"] == FILES_MAX + 5
    assert len(record["files"]["results"]) == 100
    assert (record["files"]["next"], record["files"]["files_truncated"]) == (None, True)
    other = code.commit_with({b"x": b""}, sha)
    monkeypatch.setitem(LIMITS, "diff-tree", Limits(output=1000))
    ask(f"/{other}").fails(422, "diff_too_large")


def test_the_tag_of_one_page_is_not_that_of_another(ask, line):
    tag = {"If-None-Match": ask().header("ETag")}
    assert ask(**tag).status == 304
    assert ask("?per_page=1", **tag).status == 200


def test_walks_that_go_far_wait_for_a_heavy_place(ask, line, monkeypatch):
    monkeypatch.setattr(browse_commits, "SKIP_QUICKLY", 2)
    assert not shas(ask("?page=3&per_page=2"))[1:]
    assert GitCache.objects.count() == 1
    assert shas(ask("?page=3&per_page=2")) == line[4:]


def test_five_commits_cost_as_many_queries_as_one(ask, line):
    ask().gives()  # because the first request also reads the rate limits
    costs = []
    for end in ("?per_page=1", "?per_page=5", "?page=2&per_page=1"):
        with costing() as cost:
            ask(end).gives()
        costs.append(str(cost))
    assert {*costs} == {costs[0]}
    assert costs[0].endswith(" 1 git")
