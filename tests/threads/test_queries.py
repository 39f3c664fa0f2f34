"""A list or a read asks the database the same number of questions however much there is."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.threads import paths

# Token, repository with its owner, and for a team's repository the role.
DOOR = {"team": 3, "user": 2}


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("", 1),
        ("?status=open&kind=discussion&created_by=bob&search=slow&ordering=-last_activity_at", 1),
        ("/1", 2),
        ("/1/replies", 2),
        ("/1/replies/1", 2),
        ("/1/participants", 3),
        ("/1/participants?page=2&per_page=1", 2),
    ],
)
def test_reads_ask_a_constant_number_of_questions(api, make, repo, alice, path, queries):
    expected = DOOR["team" if repo.owner_team_id else "user"] + queries
    thread = make.thread(repo, by=alice)
    last = make.reply(thread, by=alice)
    client, url = api(alice), f"{paths.threads(repo)}{path}"
    client.get(url).gives()
    for _ in range(2):
        with CaptureQueriesContext(
            connection,
        ) as asked:
            client.get(url).gives()
        assert len(asked) == expected, [query["sql"] for query in asked]
        for name in "abc":
            last = make.reply(thread, by=make.user(), to=last)
            make.reply(make.thread(repo, by=make.user(), title=name), by=alice)


def test_writing_a_reply_asks_no_more_the_deeper_it_is(api, make, repo, alice):
    thread = make.thread(repo, by=alice)
    make.reply(thread, by=alice)
    client, counts = api(alice), []
    client.get(paths.thread(thread)).gives()
    for number in range(1, 6):
        body = {"kind": "comment", "body": "x", "parent_reply_number": number}
        with CaptureQueriesContext(connection) as asked:
            client.post(paths.replies(thread), **body).gives(201)
        counts.append(len(asked))
    assert len(set(counts)) == 1, counts
