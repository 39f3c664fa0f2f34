"""Comments on lines: `POST` and `GET …/pulls/{number}/comments`, and `anchor` in replies."""

from __future__ import annotations

import base64
import os
from uuid import uuid4

import pytest

from apps.git import run
from apps.threads.actions import moderate_reply
from apps.threads.anchors import Anchor
from apps.threads.models import Reply
from tests.principals import access_of
from tests.pulls import paths

LINES = [f"line {number}\n" for number in range(1, 41)]
TEXT = "".join(LINES)


def comments(pull):
    return f"{paths.pull(pull)}/comments"


def replies(pull):
    return f"{pull.repo.api_path}/threads/{pull.number}/replies"


@pytest.fixture
def book(pull, clone):
    """The pull, whose newest version has a file `book` of 40 lines."""
    clone.push_commit("feature", {"book": TEXT})
    pull.refresh_from_db()
    return pull


def place(pull, line=5, **others):
    return {"commit_sha": pull.head_sha, "path": "book", "line": line, **others}


def comment(api, pull, by, body="Why?", **fields):
    """Comment on a line of `book`; return the record."""
    return api(by).post(comments(pull), body=body, **{**place(pull), **fields}).gives(201)


def listed(api, pull, by, query=""):
    return [row["number"] for row in api(by).get(comments(pull) + query).gives()["results"]]


def test_a_comment_is_a_reply_with_an_anchor(api, book, alice, carol, events):
    with events("reply-created") as recorded:
        record = comment(api, book, carol, line=6, start_line=5)
    place = {"commit_sha": book.head_sha, "path": "book", "start_line": 5, "line": 6}
    assert record["anchor"] == {
        **place,
        "side": "new",
        "snippet": ["line 2", "line 3", "line 4", "line 5", "line 6"],
        "review_uuid": None,
        "current": place,
        "is_outdated": False,
        "outdated_reason": None,
    }
    assert (record["kind"], record["body"], record["depth"]) == ("comment", "Why?", 0)
    assert record["thread_number"] == book.number
    assert recorded[0].target == {"kind": "reply", "number": 1, "thread_number": book.number}
    [ping] = api(alice).get("/pings").gives()["results"]
    assert ping["kind"] == "reply"


def test_every_read_of_replies_has_the_anchor_and_null_without_one(api, book, alice):
    first = comment(api, book, alice)
    answer = api(alice).post(replies(book), kind="answer", body="So.", parent_reply_number=1)
    assert answer.gives(201)["anchor"] is None
    thread = api(alice).get(f"{book.repo.api_path}/threads/{book.number}").gives()
    for rows in (thread["replies"], api(alice).get(replies(book)).gives()["results"]):
        assert [row["anchor"] for row in rows] == [first["anchor"], None]
    assert api(alice).get(f"{replies(book)}/1").gives()["anchor"] == first["anchor"]
    assert api(alice).get(f"{replies(book)}/2").gives()["anchor"] is None
    edited = api(alice).patch(f"{replies(book)}/1", status="resolved").gives()
    assert edited["anchor"] == first["anchor"]
    people = api(alice).get(f"{book.repo.api_path}/threads/{book.number}/participants").gives()
    assert people["results"][0]["reply_count"] == 2


def test_reads_start_no_git(api, book, alice):
    for line in (1, 2, 3):
        comment(api, book, alice, line=line)
    before = run.spawned
    api(alice).get(comments(book)).gives()
    api(alice).get(f"{book.repo.api_path}/threads/{book.number}").gives()
    api(alice).get(f"{replies(book)}/1").gives()
    assert run.spawned == before


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"commit_sha": "0" * 40}, 422, "commit_not_found"),
        ({"commit_sha": "abc"}, 422, "validation_failed"),
        ({"side": "old"}, 422, "commit_not_found"),
        ({"path": "books"}, 404, "not_found"),
        ({"path": "book/page"}, 404, "not_found"),
        ({"path": "a/../book"}, 422, "invalid_path"),
        ({"path": "b" * 2001}, 422, "invalid_path"),
        ({"path": ""}, 422, "validation_failed"),
        ({"line": 41}, 422, "line_not_found"),
        ({"line": 0}, 422, "validation_failed"),
        ({"line": 5, "start_line": 6}, 422, "line_not_found"),
        ({"kind": "answer"}, 422, "validation_failed"),
        ({"side": "left"}, 422, "validation_failed"),
        ({"review_uuid": str(uuid4())}, 422, "review_not_found"),
        ({"path_base64": "Ym9v"}, 404, "not_found"),
        ({"path_base64": "%"}, 422, "invalid_path"),
        ({"body": ""}, 422, "validation_failed"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(api, book, alice, events, fields, status, code):
    with events():
        body = {"body": "Why?", **place(book), **fields}
        assert api(alice).post(comments(book), **body).gives(status)["error"] == code
    assert not Anchor.objects.exists()


def test_a_comment_is_on_at_most_200_lines_of_a_text_of_1_mib(api, pull, clone, alice):
    large, exact = "x" * (1024 * 1024 + 1), "x" * (1024 * 1024)
    files = {"long": "x\n" * 300, "binary": "a\0b\n", "large": large, "exact": exact}
    clone.push_commit("feature", files)
    clone.checkout("feature")
    clone.git("update-index", "--add", "--cacheinfo", f"120000,{clone.store('blob', 'x')},link")
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{clone.sha('main')},module")
    clone.git("update-index", "--add", "--cacheinfo", f"100644,{clone.store('blob', 'x')},a/b")
    clone.git("commit", "--quiet", "-m", "links")
    clone.push("feature")
    pull.refresh_from_db()

    def sent(**fields):
        return api(alice).post(comments(pull), body="b", commit_sha=pull.head_sha, **fields)

    assert sent(path="long", start_line=1, line=201).gives(422)["error"] == "line_not_found"
    assert sent(path="long", start_line=1, line=200).gives(201)
    for path in ("binary", "large", "link", "module", "a"):
        assert sent(path=path, line=1).gives(422)["error"] == "not_a_file", path
    assert sent(path="a/b", line=1).gives(201)
    record = sent(path="exact", line=1).gives(201)
    assert [len(line) for line in record["anchor"]["snippet"]] == [500]


def test_a_snippet_has_the_last_20_lines_and_3_before_them(api, book, alice):
    snippet = comment(api, book, alice, start_line=2, line=40)["anchor"]["snippet"]
    assert snippet == [line.rstrip("\n") for line in LINES[17:40]]
    assert comment(api, book, alice, line=2)["anchor"]["snippet"] == ["line 1", "line 2"]


def test_lines_are_stored_whatever_their_bytes(api, pull, clone, alice):
    content = "a" * 8000 + "\n\0 late\r\n"
    clone.push_commit("feature", {"odd": content})
    pull.refresh_from_db()
    fields = {"body": "b", "commit_sha": pull.head_sha, "path": "odd", "line": 2}
    record = api(alice).post(comments(pull), **fields).gives(201)
    assert record["anchor"]["snippet"][-1] == "\ufffd late\r"


def test_a_path_that_is_not_utf_8_is_sent_in_base64(api, pull, clone, alice):
    clone.checkout("feature")
    raw = b"caf\xe9"
    entry = f"100644,{clone.store('blob', 'a' + chr(10))},{os.fsdecode(raw)}"
    clone.git("update-index", "--add", "--cacheinfo", entry)
    clone.git("commit", "--quiet", "-m", "odd")
    clone.push("feature")
    pull.refresh_from_db()
    encoded = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    fields = {"body": "b", "commit_sha": pull.head_sha, "path_base64": encoded, "line": 1}
    anchor = api(alice).post(comments(pull), **fields).gives(201)["anchor"]
    assert (anchor["path"], anchor["path_base64"]) == ("caf\ufffd", encoded)
    assert anchor["current"]["path_base64"] == encoded
    assert listed(api, pull, alice, f"?path_base64={encoded}") == [1]
    assert listed(api, pull, alice, "?path=caf\ufffd") == []


def test_the_old_side_is_the_merge_base_of_a_version(api, pull, clone, alice):
    base = clone.repo.branch_sha("main")
    fields = {"body": "b", "path": "README", "line": 1}
    new = api(alice).post(comments(pull), commit_sha=base, side="new", **fields)
    assert new.gives(422)["error"] == "commit_not_found"
    record = api(alice).post(comments(pull), commit_sha=base, side="old", **fields).gives(201)
    assert record["anchor"]["side"] == "old"
    assert record["anchor"]["current"]["commit_sha"] == base


def test_a_comment_can_be_part_of_an_own_review(api, book, alice, bob):
    review = api(bob).post(paths.reviews(book), status="commented").gives(201)["uuid"]
    fields = {"body": "b", **place(book), "review_uuid": review}
    refused = api(alice).post(comments(book), **fields).gives(422)
    assert refused["error"] == "review_not_found"
    record = api(bob).post(comments(book), **fields).gives(201)
    assert record["anchor"]["review_uuid"] == review
    comment(api, book, bob)
    assert listed(api, book, bob, f"?review_uuid={review}") == [1]
    api(bob).delete(f"{paths.reviews(book)}/{review}").gives(204)
    anchors = [row["anchor"] for row in api(bob).get(comments(book)).gives()["results"]]
    assert [anchor["review_uuid"] for anchor in anchors] == [None, None]


def test_comments_are_listed_by_path_line_and_number(api, book, clone, alice):
    clone.push_commit("feature", {"album": "a\nb\n"})
    book.refresh_from_db()
    comment(api, book, alice, line=9)
    comment(api, book, alice, line=3)
    comment(api, book, alice, path="album", line=2)
    comment(api, book, alice, line=3, start_line=1)
    api(alice).post(replies(book), kind="comment", body="no comment on a line").gives(201)
    assert listed(api, book, alice) == [3, 2, 4, 1]
    page = api(alice).get(f"{comments(book)}?per_page=3&page=2").gives()
    assert [row["number"] for row in page["results"]] == [1]
    html = api(alice).get(f"{comments(book)}?render=html").gives()["results"]
    assert html[0]["body_html"].strip() == "<p>Why?</p>"


def test_filters_select_by_path_status_and_state(api, book, clone, alice):
    comment(api, book, alice, line=1)
    comment(api, book, alice, line=40)
    comment(api, book, alice, path="arch", line=1)
    api(alice).patch(f"{replies(book)}/2", status="resolved").gives()
    clone.checkout("feature")
    clone.git("mv", "book", "novel")
    (clone.folder / "novel").write_text(TEXT.replace("line 40", "the end"))
    clone.git("commit", "--quiet", "--all", "-m", "rename")
    clone.push("feature")
    assert listed(api, book, alice, "?path=book") == [1, 2]
    assert listed(api, book, alice, "?path=novel") == [1]
    assert listed(api, book, alice, "?path=arch") == [3]
    assert listed(api, book, alice, "?path=arc") == []
    assert listed(api, book, alice, "?status=resolved") == [2]
    assert listed(api, book, alice, "?status=resolved&status=open") == [3, 1, 2]
    assert listed(api, book, alice, "?outdated=true") == [2]
    assert listed(api, book, alice, "?outdated=false") == [3, 1]
    for query in ("?outdated=yes", "?status=deleted", "?review_uuid=1", "?path_base64=%25"):
        api(alice).get(comments(book) + query).gives(422)


def test_a_deleted_comment_with_answers_loses_its_snippet(api, book, alice, bob):
    anchor = comment(api, book, alice, body="secret")["anchor"]
    api(bob).post(replies(book), kind="comment", body="Hm.", parent_reply_number=1).gives(201)
    api(alice).delete(f"{replies(book)}/1").gives(204)
    [placeholder] = api(alice).get(comments(book)).gives()["results"]
    assert (placeholder["is_deleted"], placeholder["body"]) == (True, "")
    assert placeholder["anchor"] == {**anchor, "snippet": []}
    assert listed(api, book, alice, "?status=open") == []
    api(bob).delete(f"{replies(book)}/2").gives(204)
    assert listed(api, book, alice) == []


def test_a_moderated_comment_loses_its_snippet(api, book, alice, sam, make):
    comment(api, book, alice)
    moderate_reply(access=access_of(sam, book.repo), reply=Reply.objects.get())
    assert Anchor.objects.get().snippet == []


def test_who_can_reply_can_comment_and_a_stranger_to_a_private_repository_cannot(api, book, carol):
    comment(api, book, carol)
    book.repo.visibility = "private"
    book.repo.save(update_fields=["visibility"])
    fields = {"body": "b", **place(book)}
    assert api(carol).post(comments(book), **fields).gives(403)["error"] == "forbidden"
    api(carol).get(comments(book)).gives(403)
    api().post(comments(book), **fields).gives(401)


def test_a_pull_without_a_head_has_no_lines(api, make, clone, alice):
    pull = make.pull(clone.repo, by=alice, source="later")
    sha = clone.repo.branch_sha("main")
    fields = {"body": "b", "commit_sha": sha, "path": "README", "line": 1}
    assert api(alice).post(comments(pull), **fields).gives(422)["error"] == "commit_not_found"
