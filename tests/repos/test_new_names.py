"""Forbidden names of new branches and tags; existing refs keep such names."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from apps.browse.names import revision
from apps.git.protocol import Command
from apps.git.refs import MOST_BYTES, new_name_problem, valid_branch_name
from apps.repos.actions import create_protection
from apps.repos.models import BRANCHES, TAGS
from apps.repos.pushes import MOST_NAMED, open_journal, settle
from apps.repos.rules import ZERO
from tests.gitclient import Clone
from tests.principals import access_of
from tests.repos.conftest import push_to

COMMIT_LIKE = "names of 40 or 64 hexadecimal digits are reserved for commits"
PLACES = "names may not begin with 'refs/', 'heads/', 'tags/' or 'remotes/'"
TOO_LONG = "names may have at most 244 bytes"
REFUSED = {
    "a" * 40: COMMIT_LIKE,
    "0123456789abcDEF" * 4: COMMIT_LIKE,
    "x" * 245: TOO_LONG,
    "é" * 122 + "x": TOO_LONG,
    "-x": "names may not begin with '-'",
    **{f"{place}/main": PLACES for place in ("refs", "heads", "tags", "remotes", "refs/heads")},
    "HEAD": "HEAD is reserved for the default branch",
    "a..b": "this name is not allowed",
    "a.lock": "this name is not allowed",
}
KEPT = ["0" * 64, "x" * 250]
"""Names that could be pushed before these rules."""


@pytest.fixture
def sha(other):
    return other.commit({"a": b"1"})


@pytest.fixture
def pushed(other, sha):
    return lambda clone, *commands: push_to(clone.repo, clone.by, other, *commands)


def test_a_refused_name_is_refused_in_words_as_branch_and_as_tag(clone, pushed, sha):
    commands = [
        Command(ZERO, sha, f"{place}{name}") for place in (BRANCHES, TAGS) for name in REFUSED
    ]
    report = pushed(clone, *commands, Command(ZERO, sha, f"{BRANCHES}fine"))
    for place in (BRANCHES, TAGS):
        for name, reason in REFUSED.items():
            assert f"ng {place}{name} {reason}\n" in report
    assert f"ok {BRANCHES}fine\n" in report
    assert {*clone.repo.git.refs()} == {f"{BRANCHES}main", f"{BRANCHES}fine"}


@pytest.mark.parametrize("name", ["x" * 244, "a" * 39, "a" * 41, "g" * 40, "a/-b", "head"])
def test_what_is_nearly_refused_is_taken(clone, name, pushed, sha):
    assert f"ok {BRANCHES}{name}\n" in pushed(clone, Command(ZERO, sha, f"{BRANCHES}{name}"))


@pytest.mark.parametrize("name", KEPT)
def test_one_that_was_made_before_the_rule_is_read_moved_and_deleted(
    api, clone, alice, name, pushed, sha
):
    assert valid_branch_name(name)
    assert new_name_problem(name)
    repo, old, ref = clone.repo, clone.head("main"), f"{BRANCHES}{name}"
    push = open_journal(actor=alice, repo=repo, moves=[(ref, ZERO, old)])
    clone.server("update-ref", ref, old)
    settle(repo=repo, push=push)
    assert api(alice).get(f"{repo.api_path}/branches/{name}").gives()["sha"] == old
    assert revision(repo, name).sha == old
    call_command("check_repos")
    assert f"ok {ref}\n" in pushed(clone, Command(old, sha, ref))
    # Names in request bodies have the same length limit as new branches.
    status = 200 if len(name) <= MOST_BYTES else 422
    api(alice).put(repo.api_path, name="Api", slug="api", default_branch=name).gives(status)
    assert repo.refs.get(full_name=ref).sha == sha
    assert f"ok {ref}\n" in pushed(clone, Command(sha, ZERO, ref))
    assert not repo.refs.filter(full_name=ref).exists()


def test_an_empty_repository_is_not_given_a_default_branch_that_nobody_can_push(
    api, team_repo, alice
):
    text = api(alice).put(team_repo.api_path, name="Api", slug="api", default_branch="a" * 64)
    assert COMMIT_LIKE in text.fails(422, "validation_failed")


A_BRANCH, A_TAG = "a branch has this name", "a tag has this name"
PROTECTED = "a protected branch has this name, or may have it"


def test_a_tag_is_not_named_like_a_branch_nor_a_branch_like_a_tag(clone, pushed, sha):
    """`git fetch URL main` would fetch the tag."""
    report = pushed(clone, Command(ZERO, sha, f"{TAGS}main"), Command(ZERO, sha, f"{TAGS}v1"))
    assert f"ng {TAGS}main {A_BRANCH}\n" in report
    assert f"ok {TAGS}v1\n" in report
    report = pushed(clone, Command(ZERO, sha, f"{BRANCHES}v1"))
    assert f"ng {BRANCHES}v1 {A_TAG}\n" in report


def test_a_tag_is_not_named_like_a_branch_in_other_letters_nor_a_branch_like_a_tag(
    clone, alice, pushed, sha
):
    """On file systems that ignore case, git takes the tag `MAIN` for `main`."""
    create_protection(access=access_of(alice, clone.repo), branch="Release/*")
    names = ("MAIN", "Main", "É", "v1", "release/1")
    report = pushed(clone, *(Command(ZERO, sha, f"{TAGS}{name}") for name in names))
    for name in ("MAIN", "Main"):
        assert f"ng {TAGS}{name} {A_BRANCH}\n" in report
    assert f"ng {TAGS}release/1 {PROTECTED}\n" in report
    open_journal(actor=alice, repo=clone.repo, moves=[(f"{TAGS}v2", ZERO, sha)])
    branches = [f"{BRANCHES}{name}" for name in ("V1", "V2", "É", "MAIN")]
    report = pushed(clone, *(Command(ZERO, sha, branch) for branch in branches))
    for name in ("V1", "V2", "É"):
        assert f"ng {BRANCHES}{name} {A_TAG}\n" in report
    assert f"ok {BRANCHES}MAIN\n" in report


def test_names_are_compared_ignoring_case_in_a_push_of_many_refs_too(clone, pushed, sha):
    names = ["MAIN", *(f"v{number}" for number in range(MOST_NAMED))]
    report = pushed(clone, *(Command(ZERO, sha, f"{TAGS}{name}") for name in names))
    assert f"ng {TAGS}MAIN {A_BRANCH}\n" in report and report.count("ok refs/") == MOST_NAMED


def test_of_a_branch_and_a_tag_that_one_push_creates_the_branch_is_made(clone, pushed, sha):
    both = (Command(ZERO, sha, f"{TAGS}both"), Command(ZERO, sha, f"{BRANCHES}both"))
    for commands in (both, both[::-1]):
        report = pushed(clone, *commands)
        assert f"ng {TAGS}both {A_BRANCH}\n" in report
        assert f"ok {BRANCHES}both\n" in report
        pushed(clone, Command(sha, ZERO, f"{BRANCHES}both"))


def test_a_name_that_another_push_is_about_to_give_is_taken(clone, alice, pushed, sha):
    open_journal(actor=alice, repo=clone.repo, moves=[(f"{TAGS}v1", ZERO, sha)])
    report = pushed(clone, Command(ZERO, sha, f"{BRANCHES}v1"))
    assert f"ng {BRANCHES}v1 {A_TAG}\n" in report


def test_a_tag_is_not_named_like_a_protected_branch_that_need_not_exist(clone, alice, pushed, sha):
    by = access_of(alice, clone.repo)
    for pattern in ("release/*", "stable", "*", "*/*"):
        create_protection(access=by, branch=pattern)
    names = ("release/1", "stable", "release/1/x", "v1")
    report = pushed(clone, *(Command(ZERO, sha, f"{TAGS}{name}") for name in names))
    for name in ("release/1", "stable"):
        assert f"ng {TAGS}{name} {PROTECTED}\n" in report
    for name in ("release/1/x", "v1"):
        assert f"ok {TAGS}{name}\n" in report


def test_what_was_named_alike_before_is_listed_and_can_be_deleted(
    clone, alice, capsys, pushed, sha
):
    """The branch can be moved too. The tag cannot, because a moved tag could deceive people."""
    old = clone.head("main")
    refs = [f"{TAGS}main", f"{TAGS}stable", f"{BRANCHES}heads/main", f"{TAGS}MAIN", f"{TAGS}Stable"]
    push = open_journal(actor=alice, repo=clone.repo, moves=[(ref, ZERO, old) for ref in refs])
    for ref in refs:
        clone.server("update-ref", ref, old)
    settle(repo=clone.repo, push=push)
    create_protection(access=access_of(alice, clone.repo), branch="stable")
    call_command("check_repos")
    output = capsys.readouterr().out
    for words in (
        "note: the tag main is named like a branch: ",
        "note: the tag MAIN is named like a branch: ",
        "note: the tag stable is named like a protected branch\n",
        "note: the tag Stable is named like a protected branch\n",
        f"note: {BRANCHES}heads/main begins like the full name of another ref\n",
    ):
        assert words in output
    assert "0 differences" in output
    assert f"ng {TAGS}main {A_BRANCH}\n" in pushed(clone, Command(old, sha, f"{TAGS}main"))
    report = pushed(
        clone, Command(old, sha, f"{BRANCHES}main"), *(Command(old, ZERO, ref) for ref in refs)
    )
    assert report.count("ok refs/") == 6


def test_an_empty_repository_gets_no_default_branch_that_is_named_like_a_tag(
    api, team_repo, alice, tmp_path, pushed, sha
):
    made = Clone(tmp_path / "clone", team_repo, alice)
    assert f"ok {TAGS}v1\n" in pushed(made, Command(ZERO, sha, f"{TAGS}v1"))
    for branch in ("v1", "V1"):
        text = api(alice).put(team_repo.api_path, name="Api", slug="api", default_branch=branch)
        assert A_TAG in text.fails(422, "validation_failed")
