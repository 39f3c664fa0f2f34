"""Reads of a repository that is damaged, deleted or packed meanwhile: errors, but no 500."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.browse.models import GitCache
from apps.git import run
from tests.browse.code import Code, push
from tests.git.stand_ins import failing_git

pytestmark = pytest.mark.once
FILES = {b"a": b"1\n", b"d/b": b"2\n", b"d/c": b"3\n"}
ENDS = ["tree", "tree?sizes=true", "tree/d", "tree/d?recursive=true&sizes=true", "contents/d/b"]
ENDS += ["raw/d/b", "blame/d/b", "commits", "commits?path=d/b", "commits?author=ada"]
ENDS += ["commits/{new}", "compare/{old}...{new}", "compare/{old}...{new}?patch=true"]
ENDS += ["compare/{old}...{new}?format=diff", "compare/{old}...{new}?format=patch"]
ENDS += ["archive?format=tar", "archive?format=zip&path=d", "branches", "branches/topic", "tags"]
ENDS += ["tree?ref={new}"]
NO_GIT = {"branches", "branches/topic", "tags"}


@pytest.fixture
def ends(code, team_repo, alice) -> list[str]:
    """URLs of all reads of two commits, none of them cached."""
    old = code.commit_with(FILES)
    new = code.commit_with({**FILES, b"d/b": b"2\n2\n"}, old)
    for name, sha in (("main", new), ("topic", old)):
        push(team_repo, f"refs/heads/{name}", sha, by=alice)
    return [end.format(old=old, new=new) for end in ENDS]


@pytest.fixture
def ask(api, team_repo, alice) -> Callable[[str], Any]:
    def send(end: str) -> Any:
        """Django's response, read to its end."""
        person = api(alice)
        path = f"/api/v1{team_repo.api_path}/{end}"
        answer = person.client.get(path, headers=person.headers)
        answer.whole = b"".join(answer.streaming_content) if answer.streaming else answer.content
        return answer

    return send


def file_of(code: Code, sha: str) -> Path:
    return code.path / "objects" / sha[:2] / sha[2:]


def damage(code: Code, what: str) -> None:
    """Remove or damage an object of both commits, all objects, or the whole repository."""
    blob, tree = (
        code.store("blob", [FILES[b"d/b"]], 2),
        code.tree_with({b"b": b"2\n", b"c": b"3\n"}),
    )
    loose = [file for file in (code.path / "objects").glob("??/*") if file.is_file()]
    if what == "no repository":
        shutil.rmtree(code.path)
    elif what == "no objects":
        for file in loose:
            file.unlink()
    elif what == "broken objects":
        for file in loose:
            file.chmod(0o600)
            file.write_bytes(file.read_bytes()[:12] + b"broken")
    else:
        file_of(code, {"no blob": blob, "no tree": tree}[what]).unlink()


@pytest.mark.parametrize(
    "what", ["no blob", "no tree", "no objects", "broken objects", "no repository"]
)
def test_a_damaged_store_is_told_as_such_and_what_needs_no_git_still_answers(
    ask, ends, code, what, caplog
):
    damage(code, what)
    statuses = {}
    for end in ends:
        try:
            answer = ask(end)
        except Exception as error:
            assert end.startswith("archive"), end
            assert "git ended with" in str(error)
            continue
        statuses[end] = answer.status_code
        assert answer.status_code in {200, 404, 422, 503}, (end, answer.whole)
        if answer.status_code == 503:
            assert answer.headers["Retry-After"] == "1"
            assert "git" in caplog.text, "somebody has to see it"
    assert all(statuses[end] == 200 for end in NO_GIT), statuses
    if what in {"no objects", "broken objects", "no repository"}:
        for end in ("contents/d/b", "commits", "blame/d/b", "tree/d"):
            assert statuses[end] in {404, 503}, (end, statuses[end])
    assert GitCache.objects.filter(value=b"").count() == 0, "it may be mended"


def test_what_a_client_has_is_told_unchanged_without_git(
    ask, ends, team_repo, alice, api, tmp_path, monkeypatch
):
    person = api(alice)
    tags = {end: ask(end).headers.get("ETag") for end in ends}
    assert [end for end, tag in tags.items() if not tag] == ["archive?format=zip&path=d"]
    before = run.spawned
    with failing_git(tmp_path, monkeypatch):
        for end, tag in tags.items():
            if tag:
                path = f"/api/v1{team_repo.api_path}/{end}"
                headers = {**person.headers, "If-None-Match": tag}
                answer = person.client.get(path, headers=headers)
                assert (answer.status_code, answer.content) == (304, b""), end
    assert run.spawned == before


def test_who_has_lost_access_gets_no_304(ask, ends, team_repo, api, bob):
    tags = {end: tag for end in ends if (tag := ask(end).headers.get("ETag"))}
    reader = api(bob)
    for end, tag in tags.items():
        answer = reader.send("GET", f"{team_repo.api_path}/{end}", headers={"If-None-Match": tag})
        assert answer.status == 304, end
    team_repo.owner_team.members.filter(user=bob).delete()
    for end, tag in tags.items():
        for sent in {tag, "*"}:
            headers = {"If-None-Match": sent}
            answer = reader.send("GET", f"{team_repo.api_path}/{end}", headers=headers)
            answer.fails(403, "forbidden")
