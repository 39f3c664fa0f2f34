"""The number of queries of a list or a read does not depend on the number of rows."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import UserFactory
from tests.threads import paths

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
        counts.append(
            {
                path: count_queries(client, paths.threads(open_repo) + path) - ACCESS
                for path in QUERIES
            }
        )
        for _ in range(3):
            last = make.reply(thread, by=UserFactory.create(), to=last)
            make.reply(make.thread(open_repo, by=UserFactory.create()), by=alice)
    assert counts == [QUERIES, QUERIES]


def count_queries(client, url):
    with CaptureQueriesContext(connection) as queries:
        client.get(url).gives()
    return len(queries)


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
