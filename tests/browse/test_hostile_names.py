"""Refs and paths that git could take for options or other syntax are refused and write nothing."""

from __future__ import annotations

from itertools import cycle
from urllib.parse import quote

import pytest

from apps.git import run
from tests.browse.code import code_of, push

pytestmark = pytest.mark.once
HOSTILE = ["-x", "--output=x", ":/x", "@{-1}", "../..", "a//b", "%00", ".git/config", ":(top)x"]
HOSTILE += ["1" * 40, "a" * 3000, "HEAD~1", "main^", "main..main", "main:README", "^main", "*"]
HOSTILE += ["refs/heads/", "refs/pull/1/head", "refs/approved/1/x", "a\nb", "\n" + "1" * 40, "--"]
HOSTILE += ["README\0", "caf\u00e9", "main@{upstream}", ":(glob)**", ".", "..", "/etc/passwd"]
HOSTILE += ["a/./b", "/".join("a" * 600), "refs/stash", "HEAD", "%FF%FE"]
ENDS = ["tree?ref={}", "contents/{}", "commits?ref={}", "raw/{}", "contents/README?ref={}"]
ENDS += ["commits?path={}", "tree/{}", "commits/{}", "commits?author={}", "commits?path_base64={}"]
ENDS += ["commits?since={}", "raw/README?ref={}", "tree?path_base64={}"]


@pytest.fixture
def commands(monkeypatch):
    """Subcommand and arguments of each git process that is started."""
    started: list[tuple[str, ...]] = []
    spawn = run._spawn

    def watched(git_dir, subcommand, args, *others):
        started.append((subcommand, *args))
        return spawn(git_dir, subcommand, args, *others)

    monkeypatch.setattr(run, "_spawn", watched)
    return started


def test_hostile_names_lead_to_nothing_and_write_nothing(
    api, team_repo, alice, commands, monkeypatch, tmp_path
):
    """Each name is tried in three places. git gets only full object names and literal paths. It
    reads the whole history only if an author or a path is given.
    """
    code, person = code_of(team_repo), api(alice)
    commit = code.commit_with({b"README": b"Slow.\n"})
    push(team_repo, "refs/heads/main", commit, by=alice)
    monkeypatch.chdir(tmp_path)
    stored = sorted(team_repo.git.path.rglob("*"))
    commands.clear()
    ends = cycle(ENDS)
    for text in HOSTILE:
        quoted = text if "%" in text else quote(text)
        for _ in range(3):
            end = next(ends).format(quoted)
            before = len(commands)
            answer = person.client.get(f"/api/v1{team_repo.api_path}/{end}", headers=person.headers)
            assert answer.status_code in {200, 404, 422}, (end, answer.status_code)
            is_search = end.startswith(("commits?author", "commits?path"))
            walked = [command for command in commands[before:] if command[0] == "log"]
            assert not walked or is_search or answer.status_code == 200, end
    assert [*tmp_path.iterdir()] == []
    assert sorted(team_repo.git.path.rglob("*")) == stored
    allowed = {"cat-file", "ls-tree", "log", "diff-tree"}
    assert {subcommand for subcommand, *_ in commands} <= allowed
    for _, *args in commands:
        options = args[: args.index("--")] if "--" in args else args
        names = [option for option in options if not option.startswith("-")]
        assert all(name in {commit, "blob", "commit"} or is_blob(name) for name in names)
        plain = [option for option in options if option.startswith("-")]
        assert not [
            option for option in plain if "output" in option and not option.startswith("--author=")
        ]
    assert len(commands) > 10


def is_blob(name):
    """Whether this is a full object name in lower case."""
    return len(name) == 40 and {*name} <= {*"0123456789abcdef"}


def test_a_path_in_a_query_that_is_no_text_is_not_taken_for_another(api, team_repo, alice):
    """Django replaces its bytes by U+FFFD, which may be the name of another folder."""
    code, person = code_of(team_repo), api(alice)
    commit = code.commit_with({b"\xff/f": b"1"})
    other = code.commit_with({b"\xff/f": b"1", "\ufffd/f".encode(): b"2"}, commit)
    push(team_repo, "refs/heads/main", other, by=alice)
    for end in ("commits", "archive"):
        path = f"{team_repo.api_path}/{end}"
        for query in ("path=%FF", "path=f&author=a&path=%FF", "author=%FF&path=%FF&ref=main"):
            assert "path_base64" in person.get(f"{path}?{query}").fails(422, "invalid_path")
        for query in ("path=%EF%BF%BD", "path=%FF&path_base64=_w", "path=%FF&path=%EF%BF%BD"):
            address = f"/api/v1{path}?{query}&author=%FF"
            assert person.client.head(address, headers=person.headers).status_code == 200, address
    listed = person.get(f"{team_repo.api_path}/commits?path_base64=_w").gives()["results"]
    assert [row["sha"] for row in listed] == [commit]
