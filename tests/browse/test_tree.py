"""`GET …/tree` and `…/tree/{path}`"""

from __future__ import annotations

import base64

import pytest

from apps.git import run
from tests.browse.code import LINK, SCRIPT, SUBMODULE, push

pytestmark = pytest.mark.once
RESOURCE = "/"
MAIN = "refs/heads/main"
FILES = {
    b"README": b"Slow.\n",
    b"run.sh": (SCRIPT, b"#!/bin/sh\n"),
    b"link": (LINK, b"README"),
    b"lib": (SUBMODULE, b"1" * 40),
    b"src/a.py": b"1",
    b"src/deep/b c.py": b"22",
    b"src.txt": b"",
    b"caf\xe9/menu": b"333",
}


def encoded(path: bytes) -> str:
    return base64.urlsafe_b64encode(path).decode()


def test_what_is_no_folder_is_refused(ask, code, commit):
    for path, kind in (("README", "file"), ("link", "symlink"), ("lib", "submodule")):
        assert f"a {kind}" in ask(f"tree/{path}").fails(422, "not_a_directory")
    assert "path" in ask("tree/nothing").fails(404, "not_found")
    assert "path" in ask("tree/link/x").fails(404, "not_found")
    assert "ref" in ask("tree?ref=nothing").fails(404, "not_found")
    assert "ref" in ask(f"tree?ref={'1' * 40}").fails(404, "not_found")
    assert "ref" in ask(f"tree?ref={code.tree_with(FILES)}").fails(404, "not_found")
    ask("tree?ref=a..b").fails(422, "invalid_ref")
    ask("tree/src/..").fails(422, "invalid_path")


def test_an_empty_repository_has_no_entries(ask, repo):
    page = ask("tree").gives()
    assert page == {"results": [], "next": None, "previous": None, "is_truncated": False}
    ask("tree?ref=main").fails(404, "not_found")
    ask("tree/src").fails(404, "not_found")


def test_a_folder_is_listed_in_gits_order(ask, code, commit):
    page = ask("tree?sizes=true").gives()
    assert (page["next"], page["previous"], page["is_truncated"]) == (None, None, False)
    assert [(row["path"], row["type"], row["mode"], row["size"]) for row in page["results"]] == [
        ("README", "file", "100644", 6),
        ("caf\ufffd", "directory", "040000", None),
        ("lib", "submodule", "160000", None),
        ("link", "symlink", "120000", 6),
        ("run.sh", "file", "100755", 10),
        ("src.txt", "file", "100644", 0),
        ("src", "directory", "040000", None),
    ]
    assert {row["size"] for row in ask("tree").gives()["results"]} == {None}
    names = {row["path"]: row for row in page["results"]}
    assert names["lib"]["sha"] == "1" * 40
    assert names["src"]["sha"] == code.tree_with(
        {b"a.py": FILES[b"src/a.py"], b"deep/b c.py": FILES[b"src/deep/b c.py"]}
    )
    assert "path_base64" not in names["src"]


def test_all_that_is_below_a_folder(ask, commit):
    page = ask("tree/src?recursive=true&sizes=true").gives()
    assert [(row["path"], row["name"], row["size"]) for row in page["results"]] == [
        ("src/a.py", "a.py", 1),
        ("src/deep", "deep", None),
        ("src/deep/b c.py", "b c.py", 2),
    ]
    for address in ("tree/src/deep", "tree/src%2Fdeep"):
        [only] = ask(address).gives()["results"]
        assert only["path"] == "src/deep/b c.py"


def test_names_that_are_no_text_are_read_by_their_bytes(ask, commit):
    [folder] = [row for row in ask("tree").gives()["results"] if "path_base64" in row]
    for text in (folder["path_base64"], encoded(b"caf\xe9")):
        [only] = ask(f"tree/whatever?path_base64={text}").gives()["results"]
        assert (only["path"], only["name"]) == ("caf\ufffd/menu", "menu")
        assert only["path_base64"] == encoded(b"caf\xe9/menu").rstrip("=")
    assert ask(f"tree?path_base64={encoded(b'src')}").gives() == ask("tree/src").gives()
    ask("tree?path_base64=a").fails(422, "invalid_path")
    ask("tree?path_base64=a%2Fb").fails(422, "invalid_path")


def test_each_kind_of_ref_names_a_tree(ask, repo, code, commit, alice):
    tag = code.tag_of(commit)
    other = code.commit_with({b"other": b""}, commit)
    push(repo, "refs/heads/a/b", other, by=alice)
    push(repo, "refs/tags/v1", tag, by=alice)
    push(repo, "refs/tags/a/b", commit, by=alice)
    for ref in ("v1", "refs/tags/v1", "refs/tags/a/b", "refs%2Fheads%2Fmain", commit, tag):
        assert len(ask(f"tree?ref={ref}").gives()["results"]) == 7
    for ref in ("a/b", "a%2Fb", "refs/heads/a/b", other):
        [only] = ask(f"tree?ref={ref}").gives()["results"]
        assert only["path"] == "other"


def test_a_commit_that_nothing_leads_to_is_read_by_its_full_name(ask, repo, code, commit, alice):
    push(repo, MAIN, code.commit_with({b"forced": b""}), by=alice)
    assert len(ask(f"tree?ref={commit}").gives()["results"]) == 7


def test_pages_do_not_shift_under_a_push(ask, repo, code, commit, alice):
    first = ask("tree?recursive=true&per_page=3").gives()
    push(repo, MAIN, code.commit_with({b"0": b"", **FILES}, commit), by=alice)
    results, link = first["results"], first["next"]
    assert f"ref={commit}" in link
    while link:
        page = ask(link.partition(f"{repo.api_path}/")[2]).gives()
        results, link = results + page["results"], page["next"]
    assert [row["path"] for row in results] == [
        row["path"] for row in ask(f"tree?recursive=true&ref={commit}").gives()["results"]
    ]
    assert len(results) == 11
    assert ask("tree?page=99").gives()["results"] == []


def test_a_bomb_of_trees_is_cut_and_says_so(ask, repo, code, alice):
    push(repo, MAIN, code.commit_of(code.tree_bomb()), by=alice)
    page = ask("tree?recursive=true&sizes=true&per_page=5").gives()
    assert (len(page["results"]), page["is_truncated"]) == (5, True)
    last = ask("tree?recursive=true&per_page=100&page=1000").gives()
    assert (len(last["results"]), last["next"], last["is_truncated"]) == (100, None, True)
    assert not ask("tree").gives()["is_truncated"]


def test_304_runs_no_git(ask, commit):
    tag = ask("tree").header("ETag")
    before = run.spawned
    for end in ("tree", "tree?"):
        answer = ask(end, **{"If-None-Match": tag})
        assert (answer.status, answer.json) == (304, None)
        assert answer.header("Cache-Control") == "private, no-cache"
    assert run.spawned == before
    assert ask("tree?sizes=true", **{"If-None-Match": tag}).status == 200
    assert ask("tree/src", **{"If-None-Match": tag}).status == 200


def test_a_former_slug_leads_to_the_same_path(ask, api, repo, commit, alice):
    former = repo.api_path
    api(alice).put(former, slug="renamed", name="Renamed").gives()
    answer = api(alice).get(f"{former}/tree/src%2Fdeep%0A%25?ref=a%2Fb&path_base64=Zg")
    answer.fails(301, "moved")
    address = f"http://testserver/api/v1{former.rpartition('/')[0]}/renamed/tree/src/deep%0A%25"
    assert answer.header("Location") == f"{address}?ref=a%2Fb&path_base64=Zg"
