"""Rules for the names of branches, refs and objects. git gets no other names."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run as run_command

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.git import run
from apps.git.merge import Strategy, build, mergeability, merged_tree
from apps.git.refs import valid_branch_name, valid_ref_name
from apps.git.repo import GitRepo, is_sha, pull_ref
from tests.git.scratch import ALICE
from tests.texts import texts

pytestmark = pytest.mark.once

A = "a" * 40
NOW = datetime.now(UTC)
ODD = ["/", ".", "..", "@", "{", "@{", "-", "~", "^", ":", "?", "*", "[", "\\", ".lock", " "]
ODD += ["\x7f"]
parts = st.one_of(st.sampled_from([*ODD, "HEAD", "a", "b", "é", "\U0001f600"]), texts(max_size=3))
HOSTILE = ["", "--output=x", ":/text", "HEAD", "main", A[:39], A.upper(), f"{A}\n", f"{A}^"]
HOSTILE += [f"^{A}"]


def git_takes(name: str) -> bool:
    if "\0" in name:
        return False
    command = ["git", "check-ref-format", f"refs/heads/{name}"]
    return run_command(command, check=False).returncode == 0


@given(st.lists(parts, max_size=6).map("".join))
@example("a.lock/b")
@example("a./b")
@example("a/.b")
@example("a\n")
@example("x" * 250)
def test_a_branch_name_is_what_git_takes(name: str) -> None:
    ours_alone = name in {"HEAD", "@"} or name.startswith("-")
    assert valid_branch_name(name) == (git_takes(name) and not ours_alone)


REFUSED_HERE = ["-x", "--output=x", "HEAD", "@", A, A.upper(), "\udcff", "x" * 251, "é" * 126]
REFUSED_HERE += ["a/" * 127 + "ab"]


@pytest.mark.parametrize("name", REFUSED_HERE)
def test_check_ref_format_lets_pass_what_is_refused_here(name: str) -> None:
    assert git_takes(name)
    assert not valid_branch_name(name)


@pytest.mark.parametrize("name", ["main", "a-", "a/-b", "a./b", "head", "é", A[1:], "x" * 250])
def test_ordinary_names_are_valid(name: str) -> None:
    assert git_takes(name)
    assert valid_branch_name(name)


def test_a_ref_is_a_branch_a_tag_or_the_head_of_a_pull() -> None:
    refused = ["main", "refs/heads/", "refs/notes/x", "refs/tags/-x", "refs/pull/0/head"]
    refused += [
        "refs/pull/1/merge",
        "refs/pull/1/head\n",
        "refs/pull/\u0661/head",
        "HEAD",
        "refs/headsx",
    ]
    assert not [name for name in refused if valid_ref_name(name)]
    assert valid_ref_name("refs/heads/a/b")
    assert valid_ref_name("refs/tags/v1.0")
    assert valid_ref_name(pull_ref(12))


def test_an_object_name_is_forty_lower_case_digits() -> None:
    assert is_sha(A)
    assert not [text for text in HOSTILE if is_sha(text)]


TAKES_A_SHA: list[Callable[[GitRepo, str], object]] = [
    lambda repo, text: repo.has_commit(text),
    lambda repo, text: repo.is_ancestor(A, text),
    lambda repo, text: repo.is_ancestor(text, A),
    lambda repo, text: repo.merge_base(text, A),
    lambda repo, text: repo.distance(A, text),
    lambda repo, text: repo.distance(text, A),
    lambda repo, text: repo.commit_authors(text, A),
    lambda repo, text: repo.diff_stat(text, A),
    lambda repo, text: merged_tree(repo, A, text),
    lambda repo, text: merged_tree(repo, text, A),
    lambda repo, text: repo.update_ref("refs/heads/x", text, A),
    lambda repo, text: repo.update_ref("refs/heads/x", A, text),
    lambda repo, text: repo.fetch_objects(repo, text),
    lambda repo, text: mergeability(repo, text, A),
    lambda repo, text: mergeability(repo, A, text),
    lambda repo, text: build(
        repo, Strategy.MERGE, A, text, author=ALICE, committer=ALICE, message="", when=NOW
    ),
]
TAKES_A_NAME: list[Callable[[GitRepo, str], object]] = [
    lambda repo, text: repo.ref(text),
    lambda repo, text: repo.some_refs(["refs/heads/main", text]),
    lambda repo, text: repo.update_ref(text, A, A),
    lambda repo, text: repo.set_head_branch(text),
    lambda repo, text: GitRepo(repo.path / "x").create(text),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_user_text_never_reaches_git_as_a_revision(tmp_path: Path, text: str) -> None:
    before = run.spawned
    for number, call in enumerate(TAKES_A_SHA):
        with pytest.raises(ValueError, match="not a full object name"):
            call(GitRepo(tmp_path), text)
            pytest.fail(f"TAKES_A_SHA[{number}] takes it")
    assert run.spawned == before


@pytest.mark.parametrize("text", ["", "-x", "HEAD", "a b", "a..b", "a\n", "\udcff"])
def test_user_text_never_reaches_git_as_a_ref(tmp_path: Path, text: str) -> None:
    before = run.spawned
    for number, call in enumerate(TAKES_A_NAME):
        with pytest.raises(ValueError, match="not a valid ref name"):
            call(GitRepo(tmp_path), text)
            pytest.fail(f"TAKES_A_NAME[{number}] takes it")
    assert run.spawned == before
