"""Threads with many replies, or with long replies; the number of queries does not depend on it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.threads import serializers
from apps.threads.models import Reply, child_path
from apps.threads.serializers import StoredHtml, stored_html
from tests.factories import UserFactory
from tests.threads import paths


def fill(thread, by, begin: int, end: int) -> None:
    Reply.objects.bulk_create(
        (
            Reply(
                thread=thread,
                number=number,
                path=child_path("", number),
                kind="comment",
                body=f"See #{thread.number}, @{by.username}.",
                created_by=by,
            )
            for number in range(begin, end)
        ),
        batch_size=1000,
    )


def cost(api, path: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        api.get(path).gives()
    return len(captured)


def queries(api, thread, last: int) -> list[int]:
    """The numbers of queries of the single read, the first page and a late page, also with HTML."""
    pages = ["", "/replies", f"/replies?page={last}", "?render=html", "/replies?render=html"]
    return [cost(api, paths.thread(thread) + page) for page in pages]


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_reads_of_a_long_thread_take_as_many_queries_as_of_a_short_one(api, thread, alice, count):
    reader = api(alice)
    fill(thread, alice, 1, 3)
    cost(reader, paths.thread(thread))  # the first request runs more queries
    short = queries(reader, thread, 1)
    fill(thread, alice, 3, count + 1)
    assert queries(reader, thread, count // 30) == short
    whole = reader.get(paths.thread(thread) + "?render=html").gives()
    assert len(whole["replies"]) == min(count, 500)
    assert whole["replies_truncated"] == (count > 500)
    assert all(reply["body_html"].count("<a ") == 2 for reply in whole["replies"])


def test_the_read_holds_so_many_bytes_of_bodies(api, make, thread, alice, monkeypatch):
    monkeypatch.setattr(serializers, "BODIES_MAX", 12)
    cases = [("aaaa", 1, False), ("ééé", 2, False), ("bb", 3, False), ("x", 3, True)]
    for body, count, truncated in cases:
        make.reply(thread, by=alice, body=body)
        whole = api(alice).get(paths.thread(thread)).gives()
        assert (len(whole["replies"]), whole["replies_truncated"]) == (count, truncated)
    assert len(api(alice).get(paths.replies(thread)).gives()["results"]) == 4
    monkeypatch.setattr(serializers, "BODIES_MAX", 9)
    whole = api(alice).get(paths.thread(thread)).gives()
    assert (len(whole["replies"]), whole["replies_truncated"]) == (1, True)


LONG = "- a\n" * 4000
"""A body with 44 KB of HTML."""


def test_an_answer_has_so_many_bytes_of_html(api, make, thread, alice, monkeypatch):
    limit = 64 * 1024
    monkeypatch.setattr(serializers, "HTML_MAX", limit)
    for body in (LONG, LONG, LONG, f"#{thread.number} " * 3000, "*short*"):
        make.reply(thread, by=alice, body=body)
    for path in (paths.thread(thread), paths.replies(thread)):
        answer = api(alice).get(f"{path}?render=html").gives()
        html = [record["body_html"] for record in answer.get("results") or answer["replies"]]
        assert sum(len((text or "").encode()) for text in html) <= limit
        assert html[0] and None in html
    for number in range(1, 6):
        record = api(alice).get(f"{paths.replies(thread)}/{number}?render=html").gives()
        assert 0 < len(record["body_html"].encode()) <= limit


def test_no_more_html_is_read_than_an_answer_may_have(make, thread, alice, monkeypatch):
    monkeypatch.setattr(serializers, "HTML_MAX", 100 * 1024)
    rows = [make.reply(thread, by=alice, body=body) for body in ("*a*", LONG, LONG, LONG, "*b*")]
    records = [{"uuid": row.uuid, "body": row.body} for row in rows]
    stored = stored_html(records, [StoredHtml(Reply.objects)])
    sizes = [len(stored[row.uuid] or "") for row in rows]
    assert sum(sizes) <= 100 * 1024
    assert [size > 0 for size in sizes] == [True, True, True, False, True]
    assert stored[rows[3].uuid] is None


def test_versions_have_so_many_bytes_of_html_together(api, make, thread, alice, monkeypatch):
    monkeypatch.setattr(serializers, "HTML_MAX", 64 * 1024)
    for end in "abc":
        api(alice).patch(paths.thread(thread), body=LONG + end).gives()
    answer = api(alice).get(f"{paths.versions(thread)}?render=html").gives()
    html = [version["body_html"] for version in answer["results"]]
    assert html[1] and html[-1] is None
    assert sum(len((text or "").encode()) for text in html) <= 64 * 1024


ACCESS = 2
"""The queries of each request: the token with its user, the repository with its owner and role."""
QUERIES = {
    "": 1,
    "?status=open&kind=discussion&created_by=bob&search=slow&ordering=-last_activity_at": 1,
    "/1": 2,
    "/1/replies": 2,
    "/1/replies/1": 2,
    "/1/participants": 3,
    "/1/participants?page=2&per_page=1": 2,
}


def test_reads_ask_a_constant_number_of_questions(api, make, open_repo, alice):
    thread = make.thread(open_repo, by=alice)
    last = make.reply(thread, by=alice)
    client, counts = api(alice), []
    client.get(paths.thread(thread)).gives()
    for _ in range(2):
        home = paths.threads(open_repo)
        counts.append({path: cost(client, home + path) - ACCESS for path in QUERIES})
        for _ in range(3):
            last = make.reply(thread, by=UserFactory.create(), to=last)
            make.reply(make.thread(open_repo, by=UserFactory.create()), by=alice)
    assert counts == [QUERIES, QUERIES]


def test_writing_a_reply_asks_no_more_the_deeper_it_is(api, make, repo, alice):
    thread = make.thread(repo, by=alice)
    make.reply(thread, by=alice)
    client, counts = api(alice), []
    client.get(paths.thread(thread)).gives()
    for number in range(1, 6):
        body = {"kind": "comment", "body": "x", "parent_reply_number": number}
        with CaptureQueriesContext(connection) as captured:
            client.post(paths.replies(thread), **body).gives(201)
        counts.append(len(captured))
    assert len(set(counts)) == 1, counts
