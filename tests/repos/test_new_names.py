"""Which names branches and tags may not be given, and that those who have one keep it."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from apps.browse.names import revision
from apps.git.new_names import new_name_problem
from apps.git.protocol import Command
from apps.git.repo import valid_branch_name
from apps.repos.http.push import receive
from apps.repos.models import BRANCHES, TAGS
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from tests.git.scratch import Scratch, push_body
from tests.gitclient import Clone
from tests.principals import access_of

COMMIT_LIKE = "names of 40 or 64 hexadecimal digits are those of commits"
TOO_LONG = "names have 244 bytes at most"
REFUSED = {
    "a" * 40: COMMIT_LIKE,
    "0123456789abcDEF" * 4: COMMIT_LIKE,
    "x" * 245: TOO_LONG,
    "é" * 122 + "x": TOO_LONG,
    "-x": "names do not begin with '-'",
    "HEAD": "HEAD is another name for the default branch",
    "a..b": "this name is not allowed",
    "a.lock": "this name is not allowed",
}
KEPT = ["0" * 64, "x" * 250]
"""What could be pushed before."""


@pytest.fixture
def clone(team_repo, alice, tmp_path):
    made = Clone(tmp_path / "clone", team_repo, alice)
    made.commit("main", {"a": "1\n"})
    made.push("main")
    return made


def pushed(clone, *commands: Command) -> str:
    source = Scratch(clone.folder / "source.git")
    if not source.exists():
        source.create()
    source.commit({"a": b"1"})
    body = push_body(source, commands)
    return receive(by=access_of(clone.by, clone.repo), body=iter([body])).decode()


def new_commit(clone) -> str:
    source = Scratch(clone.folder / "source.git")
    source.create()
    return source.commit({"a": b"1"})


def test_a_refused_name_is_refused_in_words_as_branch_and_as_tag(clone):
    sha = new_commit(clone)
    wanted = [
        Command(ZERO, sha, f"{place}{name}") for place in (BRANCHES, TAGS) for name in REFUSED
    ]
    said = pushed(clone, *wanted, Command(ZERO, sha, f"{BRANCHES}fine"))
    for place in (BRANCHES, TAGS):
        for name, reason in REFUSED.items():
            assert f"ng {place}{name} {reason}\n" in said
    assert f"ok {BRANCHES}fine\n" in said
    assert {*clone.repo.git.refs()} == {f"{BRANCHES}main", f"{BRANCHES}fine"}


@pytest.mark.parametrize("name", ["x" * 244, "a" * 39, "a" * 41, "g" * 40, "a/-b", "head"])
def test_what_is_nearly_refused_is_taken(clone, name):
    assert f"ok {BRANCHES}{name}\n" in pushed(
        clone, Command(ZERO, new_commit(clone), f"{BRANCHES}{name}")
    )


@pytest.mark.parametrize("name", KEPT)
def test_one_that_was_made_before_the_rule_is_read_moved_and_deleted(api, clone, alice, name):
    assert valid_branch_name(name)
    assert new_name_problem(name)
    repo, old, ref = clone.repo, clone.head("main"), f"{BRANCHES}{name}"
    push = open_journal(actor=alice, repo=repo, moves=[(ref, ZERO, old)])
    clone.server("update-ref", ref, old)
    settle(repo=repo, push=push)
    assert api(alice).get(f"{repo.api_path}/branches/{name}").gives()["sha"] == old
    assert revision(repo, name).sha == old
    call_command("check_repos")
    sha = new_commit(clone)
    assert f"ok {ref}\n" in pushed(clone, Command(old, sha, ref))
    api(alice).put(repo.api_path, name="Api", slug="api", default_branch=name).gives()
    assert repo.refs.get(full_name=ref).sha == sha
    assert f"ok {ref}\n" in pushed(clone, Command(sha, ZERO, ref))
    assert not repo.refs.filter(full_name=ref).exists()


def test_an_empty_repository_is_not_given_a_default_branch_that_nobody_can_push(
    api, team_repo, alice
):
    text = api(alice).put(team_repo.api_path, name="Api", slug="api", default_branch="a" * 64)
    assert COMMIT_LIKE in text.fails(422, "validation_failed")
