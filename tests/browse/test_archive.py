"""`…/archive`."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from contextlib import closing
from typing import Any

import pytest

from apps.browse.read_slots import archive_slots
from apps.git import exports, run
from apps.repos.http.streams import BrokenOff
from apps.repos.models import Repo
from tests.browse.code import LINK, SCRIPT, SUBMODULE, Code, Thing, push

pytestmark = [pytest.mark.once, pytest.mark.django_db]
RESOURCE = "/archive"
FILES: dict[bytes, Thing] = {
    b"a/b": b"one\n",
    b"a/c/d": b"two\n",
    b"a.txt": b"x",
    b"run.sh": (SCRIPT, b"#!/bin/sh\n"),
    b"link": (LINK, b"a/b"),
    b"sub": (SUBMODULE, b"1" * 40),
    b"ignored": b"x",
    b"subst": b"$Format:%H %G?$",
    b".gitattributes": b"ignored export-ignore\nsubst export-subst\n",
}
HOSTILE = ["-x", "--output=x", "--remote=x", ":/x", ":(top)x", ".git/config", "a.txt/x", "*"]
HOSTILE += ["1" * 40]


@pytest.fixture
def head(code: Code, team_repo: Repo, alice: Any) -> str:
    sha = code.commit_with(
        FILES, header="gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----"
    )
    push(team_repo, "refs/heads/main", sha, by=alice)
    return sha


@pytest.fixture
def load(api: Any, team_repo: Repo, alice: Any) -> Any:
    """`load("?format=tar")` returns Django's response to alice, with all of its bytes."""

    def send(query: str = "", method: str = "GET", **headers: str) -> Any:
        answer = begin(api(alice), team_repo, query, method, **headers)
        answer.whole = b"".join(answer.streaming_content) if answer.streaming else answer.content
        return answer

    return send


def begin(caller: Any, repo: Repo, query: str = "", method: str = "GET", **headers: str) -> Any:
    """The response, before any of it has been read."""
    path = f"/api/v1{repo.api_path}/archive{query}"
    return caller.client.generic(method, path, headers={**caller.headers, **headers})


def bytes_of(answer: Any) -> bytes:
    assert (answer.status_code, answer.streaming) == (200, True), answer.whole
    return bytes(answer.whole)


def files_of(tar: bytes) -> dict[str, bytes | str]:
    """Name -> the content, or the target of a link. Folders are left out."""
    contents: dict[str, bytes | str] = {}
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        for entry in opened:
            if entry.issym():
                contents[entry.name] = entry.linkname
            elif entry.isfile():
                content = opened.extractfile(entry)
                assert content is not None
                contents[entry.name] = content.read()
    return contents


def test_what_is_no_directory_or_no_ref_is_refused(ask, head, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in HOSTILE:
        ask(f"?path={path}").fails(404, "not_found")
    for path in ("a//b", "..", "a/../b", "%00x"):
        assert ask(f"?path={path}").status == 422
    for ref in ("-x", "--output=x", ":/x", "@{-1}", "HEAD", "main^", "a//b"):
        ask(f"?ref={ref}").fails(422, "invalid_ref")
    for path in ("a.txt", "link", "sub"):
        ask(f"?path={path}").fails(422, "not_a_directory")
    ask("?ref=nothing").fails(404, "not_found")
    ask("?format=rar").fails(422, "validation_failed")
    assert list(tmp_path.iterdir()) == []


def test_a_repository_without_commits_has_no_archive(ask, team_repo) -> None:
    ask().fails(404, "not_found")


def test_an_archive_has_all_files_of_the_commit_in_one_folder(load, head) -> None:
    answer, name = load(), f"api-{head[:12]}"
    assert answer["Content-Type"] == "application/gzip"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}.tar.gz"'
    assert (answer["X-Content-Type-Options"], answer["Cache-Control"]) == (
        "nosniff",
        "private, no-cache",
    )
    assert "ETag" not in answer
    tar = bytes_of(load("?format=tar"))
    assert gzip.decompress(bytes_of(answer)) == tar
    files = files_of(tar)
    expanded = f"{head} "
    assert str(files.pop(f"{name}/subst")).startswith(f"b'{expanded}")
    assert files == {
        f"{name}/a/b": b"one\n",
        f"{name}/a/c/d": b"two\n",
        f"{name}/a.txt": b"x",
        f"{name}/run.sh": b"#!/bin/sh\n",
        f"{name}/link": "a/b",
        f"{name}/.gitattributes": FILES[b".gitattributes"],
    }
    with zipfile.ZipFile(io.BytesIO(bytes_of(load("?format=zip")))) as opened:
        assert {entry for entry in opened.namelist() if not entry.endswith("/")} == {
            *files,
            f"{name}/subst",
        }
        assert opened.read(f"{name}/a/b") == b"one\n"


def test_with_a_path_only_what_is_below_it_is_there_under_its_full_path(load, head) -> None:
    name = f"api-{head[:12]}"
    assert {*files_of(bytes_of(load("?format=tar&path=a")))} == {f"{name}/a/b", f"{name}/a/c/d"}
    assert {*files_of(bytes_of(load("?format=tar&path_base64=YS9j")))} == {f"{name}/a/c/d"}


def test_a_tar_has_a_tag_and_head_has_no_content(load, head, team_repo, alice, code) -> None:
    answer = load("?format=tar&ref=main")
    tag, content = answer["ETag"], bytes_of(answer)
    before = run.spawned
    same = load("?format=tar&ref=main", **{"If-None-Match": tag})
    assert (same.status_code, same.whole, run.spawned) == (304, b"", before)
    assert bytes_of(load("?format=tar&ref=main", **{"If-None-Match": '"x"'})) == content
    first = load(method="HEAD")
    assert (first.status_code, first.whole, first["Content-Type"]) == (200, b"", "application/gzip")
    push(team_repo, "refs/heads/main", code.commit_with({}, head), by=alice)
    assert load("?format=tar&ref=main", **{"If-None-Match": tag}).status_code == 200


def test_no_archive_names_refs_nor_changes_with_them(load, code, team_repo, alice) -> None:
    """Some refs are hidden, and the ETag of a tar promises that its bytes never change."""
    formats = b"$Format:%D|%d|%(describe)|%aN|%H$"
    files: dict[bytes, Thing] = {b"f": formats, b".gitattributes": b"f export-subst\n"}
    sha = code.commit_with(files)
    push(team_repo, "refs/heads/main", sha, by=alice)
    first = load("?format=tar")
    [name] = [path for path in files_of(bytes_of(first)) if path.endswith("/f")]
    assert files_of(first.whole)[name] == f"|||Ada|{sha}".encode()
    map_of = code.commit_with({**files, b".mailmap": b"Eve <e@x> <ada@example.org>\n"}, sha)
    push(team_repo, "refs/heads/main", map_of, by=alice)
    push(team_repo, "refs/tags/v1", code.tag_of(sha), by=alice)
    for ref in ("refs/versions/1/1", "refs/pull/1/head", f"refs/approved/1/{sha}"):
        code.update_ref(ref, sha, "0" * 40)
    again = load(f"?format=tar&ref={sha}")
    assert (bytes_of(again), files_of(again.whole)[name]) == (first.whole, f"|||Ada|{sha}".encode())
    assert "refs" not in str(files_of(bytes_of(load(f"?format=tar&ref={map_of}"))))


def test_any_tag_is_unchanged_only_where_there_is_something(
    load, ask, head, api, alice, team_repo, monkeypatch
) -> None:
    """No git process is left that writes an archive which nobody reads."""
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0)
    headers, send = {"If-None-Match": "*"}, api(alice).send
    for end, status in (
        ("archive?format=tar", 304),
        ("archive?format=tar", 304),
        ("archive?ref=none", 404),
        ("archive?format=tar&path=nothing", 404),
        ("archive?format=tar&path=a.txt", 422),
        ("contents/a.txt", 304),
        ("contents/nothing", 404),
        ("contents/a", 422),
        ("tree/a", 304),
        ("tree/nothing", 404),
        ("raw/a.txt", 304),
        ("raw/nothing", 404),
        (f"compare/{head}...{head}", 304),
        (f"compare/{head}...{'1' * 40}", 404),
        (f"compare/{head}...{head}?format=diff", 304),
        ("blame/nothing", 404),
        (f"compare/{head}...{'1' * 40}?format=diff", 404),
        ("branches/nothing", 404),
    ):
        answer = send("GET", f"{team_repo.api_path}/{end}", headers=headers)
        assert answer.status == status, (end, answer.status)
    assert not archive_slots.held
    assert bytes_of(load("?format=tar"))


@pytest.mark.parametrize(("limit", "most"), [("ENTRIES_MAX", 10), ("BYTES_MAX", 20)])
def test_an_archive_that_is_too_large_is_refused_before_its_first_byte(
    ask, load, head, monkeypatch, limit, most
) -> None:
    monkeypatch.setattr(exports, limit, most)
    for form in ("tar", "tar.gz", "zip"):
        ask(f"?format={form}").fails(422, "archive_too_large")
    before = run.spawned
    assert "path" not in ask().fails(422, "archive_too_large")
    assert run.spawned <= before + 1, "the refusal is cached"
    assert files_of(bytes_of(load("?format=tar&path=a")))


def test_each_has_one_archive_at_a_time(
    load, ask, head, monkeypatch, api, alice, bob, team_repo
) -> None:
    monkeypatch.setattr("apps.core.slots.PATIENCE", 0)
    first = begin(api(alice), team_repo)
    ask().fails(503, "unavailable")
    ask("?ref=nothing").fails(404, "not_found")
    second = begin(api(bob), team_repo)
    for answer in (first, second):
        assert gzip.decompress(b"".join(answer.streaming_content))
    assert bytes_of(load())


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_an_archive_whose_files_repeat_the_message_of_their_commit_is_broken_off(
    api, code, team_repo, alice, monkeypatch, form
) -> None:
    """A repository of 14 KB could make an archive of gigabytes."""
    files: dict[bytes, Thing] = {b"f": b"$Format:%B$" * 1000, b".gitattributes": b"f export-subst"}
    push(team_repo, "refs/heads/main", code.commit_with(files, message="x" * 4000), by=alice)
    monkeypatch.setattr(exports, "WRITTEN_MAX", 1_000_000)
    answer = begin(api(alice), team_repo, f"?format={form}")
    with closing(answer), pytest.raises(BrokenOff):
        assert len(b"".join(answer.streaming_content)) < 1_000_000
