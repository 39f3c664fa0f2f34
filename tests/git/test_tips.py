"""apps/git/tips.py: the commits and annotated tags of refs, compared with git's own output."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.git import run
from apps.git.run import LIMITS, GitError, Limits
from apps.git.tips import (
    TEXT_MAX,
    ObjectParser,
    Stamp,
    Stored,
    Tip,
    moment,
    read_tips,
    tag_message,
    tip_of,
)
from tests.git.scratch import Scratch, git
from tests.git.stand_ins import slow_git

MIB = 1024 * 1024
ABSENT = "1" * 40
IDENT = b"Ada L <ada@example.org> 1700000000 +0130"

pytestmark = pytest.mark.once


def commit(repo: Scratch, *, author: bytes = IDENT, message: bytes = b"x\n", more: bytes = b""):
    tree = repo.tree("100644", {})
    head = b"tree %b\nauthor %b\ncommitter %b\n" % (tree.encode(), author, author)
    content = head + more + b"\n" + message
    return repo.store("commit", [content], len(content))


def tag(
    repo: Scratch, sha: str, kind: str = "commit", message: bytes = b"One\n", who: bytes = IDENT
):
    lines = b"object %b\ntype %b\ntag v1\n" % (sha.encode(), kind.encode())
    content = lines + (b"tagger %b\n" % who if who else b"") + b"\n" + message
    return repo.store("tag", [content], len(content))


def test_a_branch_or_a_lightweight_tag_leads_to_its_commit(repo):
    sha = commit(repo, message=b"Say hello\n\nto everybody\n")
    tip = Tip(sha, "Say hello", "Ada L", "2023-11-14T23:43:20+01:30")
    assert read_tips(repo, {sha: False}) == read_tips(repo, {sha: True}) == {sha: tip}


def test_an_annotated_tag_leads_to_a_commit_through_any_number_of_others(repo):
    sha = commit(repo)
    inner = tag(repo, sha)
    outer = tag(repo, inner, "tag", b"\nTwo\n\nlines\n", b"Bo <bo@example.org> 1700000001 -0200")
    tip = tip_of(repo, outer)
    assert (tip.commit, tip.subject, tip.message) == (sha, "x", "Two\n\nlines")
    assert tip.tagger == Stamp("Bo", "bo@example.org", "2023-11-14T20:13:21-02:00")
    assert tag_message(repo, outer) == ("Two\n\nlines", False)


def test_a_tag_of_a_file_or_a_folder_leads_to_no_commit(repo):
    blob, tree = repo.zeros(1), repo.tree("100644", {})
    annotated = tag(repo, blob, "blob", b"A key\n", b"")
    tips = read_tips(repo, dict.fromkeys([blob, tree, annotated, ABSENT], True))
    assert tips.pop(annotated) == Tip(message="A key")
    assert tips == {blob: Tip(), tree: Tip(), ABSENT: Tip()}
    assert tag_message(repo, blob) is None


def test_hundreds_are_told_by_one_git(repo):
    shas = [commit(repo, message=b"%d\n" % n) for n in range(300)]
    before = run.spawned
    tips = read_tips(repo, dict.fromkeys(shas, True))
    assert [tip.subject for tip in tips.values()] == [str(n) for n in range(300)]
    assert run.spawned == before + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"message": b"\n\n  Two  \nlines \n\nrest\n"},
        {"message": b"A NUL\0ends it\n"},
        {"message": b""},
        {"message": b"Gr\xfc\xdfe\n", "author": b"J\xf6 <j@example.org> 1 +0000"},
        {
            "message": b"Gr\xfc\xdfe\n",
            "author": b"J\xf6 <j@example.org> 1 +0000",
            "more": b"encoding ISO-8859-1\n",
        },
        {"author": b"No Email <> 1700000000 -1130"},
        {"author": b" <only@example.org> 1700000000 +0000"},
        {"more": b"gpgsig -----BEGIN\n \n author Eve <e@e> 1 +0000\n"},
    ],
)
def test_a_commit_is_told_as_git_tells_it(repo, fields: Any):
    sha = commit(repo, **fields)
    output = git(repo.path, "log", "-1", "--format=%s%x00%an%x00%cI", sha)
    subject, name, at = output.decode("utf-8", "replace").split("\0")
    tip = tip_of(repo, sha)
    assert (tip.subject, tip.author) == (subject, name)
    assert tip.committed_at == at.replace("Z", "+00:00")


def test_what_git_has_no_date_of_has_none():
    assert moment(1700000000, "+9999") == "2023-11-14T22:13:20+00:00"
    assert moment(10**18, "+0000") == moment(-(10**18), "+0000") == ""
    assert Stored.parse(b"author Ada <a@b> yesterday\n\n").stamp(b"author").at == ""


def test_long_texts_are_cut(repo):
    sha = commit(repo, message=b"s" * 2000, author=b"n" * 2000 + b" <a@b> 1 +0000")
    tagged = tag(repo, sha, message=b"m" * 2000)
    tip = tip_of(repo, tagged)
    assert (len(tip.subject), len(tip.author)) == (TEXT_MAX, TEXT_MAX)
    assert tip.message == "m" * (TEXT_MAX + 1)
    assert tag_message(repo, tagged) == ("m" * 2000, False)
    huge = tag(repo, sha, message=b"m" * 2 * MIB)
    message, is_cut = tag_message(repo, huge) or ("", False)
    assert is_cut
    assert MIB - 1000 < len(message) <= MIB


def test_a_long_message_is_not_held(repo):
    shas = [commit(repo, message=bytes([65 + n]) * 30 * MIB) for n in range(2)]
    tracemalloc.start()
    tips = read_tips(repo, dict.fromkeys(shas, False))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [tip.subject for tip in tips.values()] == ["A" * TEXT_MAX, "B" * TEXT_MAX]
    assert most < 2 * MIB


def test_one_that_is_too_large_for_git_does_not_hide_the_others(repo, monkeypatch):
    small, large = commit(repo), commit(repo, message=b"x" * 40 * MIB)
    monkeypatch.setitem(LIMITS, "cat-file", Limits(memory=32 * MIB))
    assert read_tips(repo, {small: False, large: False, ABSENT: True}) == {
        small: Tip(small, "x", "Ada L", "2023-11-14T23:43:20+01:30"),
        large: Tip(),
        ABSENT: Tip(),
    }


def test_nothing_is_told_in_place_of_what_takes_too_long(repo, tmp_path, monkeypatch):
    sha = commit(repo)
    with slow_git(tmp_path, monkeypatch):
        assert read_tips(repo, {sha: False}) == {}


def test_a_repository_that_is_gone_tells_nothing(tmp_path):
    with pytest.raises(GitError):
        read_tips(Scratch(tmp_path / "gone.git"), {ABSENT: False})


def test_only_full_object_names_reach_git(repo):
    for text in ("main", "--batch-check", f"{ABSENT}\n"):
        with pytest.raises(ValueError, match="full object name"):
            read_tips(repo, {text: True})
        with pytest.raises(ValueError, match="full object name"):
            tag_message(repo, text)


OBJECTS = [b"", b"author a <b> 1 +0000\n\nhello", b"tree x\n\n\n\n" + b"z" * 200, b"\n" * 70]


@given(st.lists(st.sampled_from([None, *OBJECTS]), max_size=6), st.data())
@settings(derandomize=True, deadline=None)
def test_an_answer_is_understood_wherever_it_is_cut_into_pieces(objects, data):
    whole = b"".join(
        b"%040d missing\n" % n
        if content is None
        else b"%040d commit %d\n%b\n" % (n, len(content), content)
        for n, content in enumerate(objects)
    )
    at_once, in_pieces = ObjectParser(50, 20), ObjectParser(50, 20)
    at_once.feed(whole)
    ends = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    for start, end in zip([0, *ends], [*ends, len(whole)], strict=True):
        in_pieces.feed(whole[start:end])
    assert in_pieces == at_once
    assert [tip is None for tip in at_once.tips] == [stored is None for stored in objects]
    assert at_once.cut == any(len(stored or b"") > 50 for stored in objects)


@given(st.binary(max_size=300), st.sampled_from([b"", b"utf-7", b"cp1252", b"punycode", b"latin1"]))
@settings(derandomize=True, deadline=None)
def test_any_bytes_become_text_that_a_database_keeps(content, charset):
    stored = Stored.parse(b"encoding %b\nauthor %b\n\n%b" % (charset, content, content))
    stamp = stored.stamp(b"author")
    for text in (stored.message, stored.subject, stamp.name, stamp.email, stamp.at):
        assert "\0" not in text
        text.encode()
