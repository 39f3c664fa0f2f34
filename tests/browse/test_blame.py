"""`…/blame/{path}`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import pytest

from apps.git import run
from apps.git.run import LIMITS, Limits
from apps.repos.models import Repo
from tests.browse.code import LINK, SUBMODULE, Thing, code_of, push

pytestmark = [pytest.mark.once, pytest.mark.django_db]
RESOURCE = "/blame/"
LATIN = b"caf\xe9/x"
FILES: dict[bytes, Thing] = {
    b"a/b": b"one\ntwo\nthree",
    b"empty": b"",
    b"link": (LINK, b"a/b"),
    b"sub": (SUBMODULE, b"1" * 40),
    b"large": b"x\n" * 600_000,
    b"long": b"x\n" * 1200,
    LATIN: b"latin\n",
}
HOSTILE = ["-x", "--output=x", ":/x", ":(top)x", "%40%7B-1%7D", ".git/config", "a/b/c", "1" * 40]
HOSTILE += ["%0A", "*", "a/%2A"]
WRONG = ["a//b", "..%2F..", "a/./b", "%00", "x" * 3700 + "/" + "/y" * 100]


@pytest.fixture
def commits(team_repo: Repo, alice: Any, bob: Any) -> tuple[str, str]:
    """The two commits of `main`: the second moves a file and changes its second line."""
    code = code_of(team_repo)
    before = {path: thing for path, thing in FILES.items() if path != b"a/b"}
    before[b"old name"] = b"one\n2\nthree\n"
    first = code.commit_with(before, message="First\n\nmore")
    second = code.commit_with(
        {**FILES, b"a/b": b"one\ntwo\nthree\n"}, first, email="Bob@example.org"
    )
    push(team_repo, "refs/heads/main", second, by=alice)
    bob.email, bob.email_key = "bob@example.org", "bob@example.org"
    bob.save()
    return first, second


def test_no_path_reaches_git_as_anything_else(ask, commits, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in HOSTILE:
        assert "path" in ask(path).fails(404, "not_found")
    for path in WRONG:
        ask(path).fails(422, "invalid_path")
    for ref in ("-x", "--output=x", ":/x", "HEAD", "a//b", "main~1"):
        ask(f"a/b?ref={quote(ref)}").fails(422, "invalid_ref")
    assert "ref" in ask("a/b?ref=nothing").fails(404, "not_found")
    assert "ref" in ask(f"a/b?ref={'1' * 40}").fails(404, "not_found")
    assert list(tmp_path.iterdir()) == []


def test_what_has_no_lines_is_refused(ask, commits) -> None:
    ask("a").fails(422, "is_directory")
    ask("sub").fails(422, "not_a_file")
    ask("large").fails(422, "file_too_large")
    ask("missing").fails(404, "not_found")
    for query in ("from=0", "from=x", "from=2&to=1", "to=1001", "from=5&to=1005", "to=-1"):
        ask(f"long?{query}").fails(422, "validation_failed")
    for path in ("long?from=1201", "a/b?from=4", "empty?from=2"):
        ask(path).fails(422, "line_not_found")


def test_each_line_names_its_commit_and_where_it_was_there(ask, commits, bob) -> None:
    first, second = commits
    record = ask("a%2Fb?ref=main").gives()
    lines = (record["from"], record["to"], record["total_lines"])
    assert (record["commit_sha"], record["path"], lines) == (second, "a/b", (1, 3, 3))
    ranges = [
        (row["from"], row["to"], row["commit"]["sha"], row["original_path"])
        for row in record["ranges"]
    ]
    assert ranges == [(1, 1, first, "old name"), (2, 2, second, "a/b"), (3, 3, first, "old name")]
    old, new, _ = (row["commit"] for row in record["ranges"])
    assert (old["subject"], old["author"]["username"]) == ("First", None)
    assert (new["author"]["email"], new["author"]["username"]) == ("Bob@example.org", "bob")
    assert record["ranges"][2]["original_line"] == 3
    ask(f"a/b?ref={first}").fails(404, "not_found")


def test_as_many_lines_are_told_as_are_asked_for(ask, commits) -> None:
    ranges = {"": (1, 500), "?from=800": (800, 1200), "?from=2&to=1001": (2, 1001)}
    for query, lines in {**ranges, "?from=1200&to=1300": (1200, 1200)}.items():
        record = ask(f"long{query}").gives()
        assert (record["from"], record["to"], record["total_lines"]) == (*lines, 1200)
        assert [(row["from"], row["to"]) for row in record["ranges"]] == [lines]
    record = ask("empty").gives()
    assert (record["from"], record["to"], record["total_lines"], record["ranges"]) == (1, 0, 0, [])
    assert ask("link").gives()["total_lines"] == 1


def test_a_path_that_is_no_utf8_is_asked_for_in_base64(ask, commits) -> None:
    encoded = urlsafe_b64encode(LATIN).decode()
    record = ask(f"x?path_base64={encoded}").gives()
    assert (record["path"], record["path_base64"]) == ("caf\ufffd/x", encoded.rstrip("="))
    assert record["ranges"][0]["original_path_base64"] == encoded.rstrip("=")


def test_the_second_answer_asks_no_git(ask, commits) -> None:
    first, before = ask("a/b"), run.spawned
    assert ask("a/b").gives() == first.gives()
    assert ask("a/b", **{"If-None-Match": first.header("ETag")}).status == 304
    assert run.spawned == before


@pytest.mark.parametrize("limits", [Limits(deadline=0), Limits(output=10)], ids=["late", "large"])
def test_what_git_cannot_tell_is_not_asked_again_at_once(ask, commits, monkeypatch, limits) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(LIMITS, "blame", limits)
        ask("a/b").fails(422, "too_expensive")
    ask("a/b").fails(422, "too_expensive")
    ask("a/b?to=2").gives()
