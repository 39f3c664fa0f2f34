"""`GET …/contents/{path}`"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apps.browse.trees import INLINE_MAX, TARGET_MAX
from tests.browse.code import LINK, SUBMODULE, push

pytestmark = pytest.mark.once
RESOURCE = "/contents/"
MAIN = "refs/heads/main"
OID = "a" * 64
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 12345\n".encode()
FILES: dict[bytes, Any] = {
    b"README": "Slöw.\n".encode(),
    b"empty": b"",
    b"binary": b"a" * 7999 + b"\0",
    b"late": b"a" * 8000 + b"\0",
    b"link": (LINK, b"../caf\xe9"),
    b"lib": (SUBMODULE, b"1" * 40),
    b"movie": POINTER,
    b"src/a b#?.py": b"1",
    b"caf\xe9\n": b"menu",
    b"full": bytes(INLINE_MAX),
    b"large": b"a" * (INLINE_MAX + 1),
    b"large binary": bytes(INLINE_MAX + 1),
    b"long link": (LINK, b"a" * (TARGET_MAX + 1)),
}


def test_what_is_no_file_is_refused(ask, commit):
    ask("src").fails(422, "is_directory")
    ask("x?path_base64=").fails(422, "is_directory")
    assert "path" in ask("nothing").fails(404, "not_found")
    assert "path" in ask("README/x").fails(404, "not_found")
    assert "ref" in ask("README?ref=nothing").fails(404, "not_found")
    ask("README/").fails(422, "invalid_path")
    ask("README?ref=").fails(422, "invalid_ref")


def test_an_empty_repository_has_no_file(ask, repo):
    assert "ref" in ask("README").fails(404, "not_found")


def test_a_file_comes_with_its_content(ask, repo, code, commit):
    content = FILES[b"README"]
    home = f"teams/acme/{repo.slug}" if repo.owner_team else f"users/alice/{repo.slug}"
    assert ask("README?ref=refs/heads/main").gives() == {
        "path": "README",
        "name": "README",
        "type": "file",
        "mode": "100644",
        "sha": code.store("blob", [content], len(content)),
        "size": 7,
        "encoding": "base64",
        "content": base64.b64encode(content).decode(),
        "is_binary": False,
        "lfs": None,
        "target": None,
        "ref": "refs/heads/main",
        "commit_sha": commit,
        "raw_url": f"http://testserver/api/v1{repo.api_path}/raw/README?ref={commit}",
        "web_url": f"http://testserver/{home}/files/README?ref={commit}",
    }
    assert ask("README").gives()["ref"] == "refs/heads/main"
    assert ask(f"README?ref={commit}").gives()["ref"] == commit
    empty = ask("empty").gives()
    assert (empty["content"], empty["encoding"], empty["is_binary"]) == ("", "base64", False)


@pytest.mark.parametrize(
    ("name", "size", "is_inline", "is_binary"),
    [
        ("binary", 8000, True, True),
        ("late", 8001, True, False),
        ("full", INLINE_MAX, True, True),
        ("large", INLINE_MAX + 1, False, False),
        ("large binary", INLINE_MAX + 1, False, True),
    ],
)
def test_a_large_file_comes_without_its_content(ask, commit, name, size, is_inline, is_binary):
    record = ask(name).gives()
    content = base64.b64encode(FILES[name.encode()]).decode() if is_inline else None
    assert (record["size"], record["is_binary"]) == (size, is_binary)
    assert (record["encoding"], record["content"]) == ("base64" if is_inline else None, content)


def test_links_and_submodules_say_where_they_lead(ask, commit):
    plain = {"encoding": None, "content": None, "is_binary": None, "lfs": None}
    for name, kind, target, size in (
        ("link", "symlink", "../caf\ufffd", 7),
        ("lib", "submodule", "1" * 40, None),
        ("long%20link", "symlink", None, TARGET_MAX + 1),
    ):
        record = ask(name).gives()
        assert {field: record[field] for field in plain} == plain
        assert (record["type"], record["target"], record["size"]) == (kind, target, size)


def test_a_pointer_of_lfs_is_named(ask, repo, code, commit, alice):
    assert ask("movie").gives()["lfs"] == {"oid": OID, "size": 12345}
    wrong = {
        b"longer": POINTER + b"x",
        b"sha1": POINTER.replace(b"sha256", b"sha1"),
        b"size": POINTER.replace(b"12345", b"9" * 30),
        b"crlf": POINTER.replace(b"\n", b"\r\n"),
        b"link": (LINK, POINTER),
    }
    push(repo, MAIN, code.commit_with(wrong, commit), by=alice)
    assert [ask(name.decode()).gives()["lfs"] for name in wrong] == [None] * 5


def test_names_of_any_bytes_are_read_and_lead_to_their_bytes(ask, api, repo, commit, alice):
    for address, path in (
        ("src/a%20b%23%3F.py", "src/a b#?.py"),
        ("src%2Fa%20b%23%3F.py", "src/a b#?.py"),
        ("x?path_base64=Y2Fm6Qo", "caf\ufffd\n"),
        ("x?path_base64=Y2Fm6Qo%3D", "caf\ufffd\n"),
    ):
        record = ask(address).gives()
        assert record["path"] == path
        raw = api(alice).client.get(record["raw_url"], headers=api(alice).headers)
        assert raw.content == base64.b64decode(record["content"])
    assert (record["name"], record["path_base64"]) == ("caf\ufffd\n", "Y2Fm6Qo")


def test_a_branch_a_tag_and_a_file_of_one_name(ask, repo, code, alice):
    commits = {
        name: code.commit_with({b"a/b": name.encode()})
        for name in ("refs/heads/a/b", "refs/tags/a/b", MAIN)
    }
    for name, sha in commits.items():
        push(repo, name, sha, by=alice)
    for path in ("a/b", "a%2Fb"):
        for ref, sha in {**commits, "a/b": commits["refs/heads/a/b"]}.items():
            for name in (ref, ref.replace("/", "%2F")):
                record = ask(f"{path}?ref={name}").gives()
                assert (record["commit_sha"], record["ref"]) == (sha, record["ref"])


def test_a_push_changes_the_tag_of_an_answer(ask, repo, code, commit, alice):
    headers = {"If-None-Match": ask("README").header("ETag")}
    assert ask("README", **headers).status == 304
    push(repo, MAIN, code.commit_with(FILES, commit), by=alice)
    assert ask("README", **headers).status == 200
