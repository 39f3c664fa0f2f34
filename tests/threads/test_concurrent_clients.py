"""Sixteen clients that write in one thread at the same time."""

from __future__ import annotations

import pytest

from apps.core import markdown
from apps.threads.models import Reply
from tests.factories import UserFactory
from tests.races import together
from tests.threads import paths
from tests.threads.test_races import BODY, statuses

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
CLIENTS = 16


@pytest.fixture
def clients(api):
    return [api(UserFactory.create()) for _ in range(CLIENTS)]


def test_all_replies_of_concurrent_clients_are_there_once_each(api, thread, clients, alice):
    url = paths.replies(thread)
    answers = together(
        *(
            lambda at=at, client=client: client.post(url, kind="comment", body=f"*{at}*")
            for at, client in enumerate(clients)
        )
    )
    assert statuses(answers) == [201] * CLIENTS
    assert sorted(answer.json["number"] for answer in answers) == [*range(1, CLIENTS + 1)]
    whole = api(alice).get(paths.thread(thread) + "?render=html").gives()
    assert (whole["reply_count"], whole["participant_count"]) == (CLIENTS, CLIENTS + 1)
    people = api(alice).get(paths.thread(thread) + "/participants?per_page=100").gives()["results"]
    assert [person["reply_count"] for person in people] == [0, *[1] * CLIENTS]
    assert [reply["number"] for reply in whole["replies"]] == [*range(1, CLIENTS + 1)]
    for answer in answers:
        [record] = [reply for reply in whole["replies"] if reply["number"] == answer.json["number"]]
        assert record["body_html"] == f"<p><em>{record['body'].strip('*')}</em></p>\n"
        versions = api(alice).get(f"{url}/{record['number']}/versions").gives()["results"]
        assert [(version["version"], version["body"]) for version in versions] == [
            (1, answer.json["body"])
        ]


def test_each_of_many_edits_of_a_reply_is_a_version(api, make, thread, carol):
    reply = make.reply(thread, by=carol, **BODY)
    clients = [api(carol) for _ in range(CLIENTS)]
    answers = together(
        *(
            lambda at=at, client=client: client.patch(paths.reply(reply), body=f"Edit {at}.")
            for at, client in enumerate(clients)
        )
    )
    assert statuses(answers) == [200] * CLIENTS
    assert sorted(answer.json["version"] for answer in answers) == [*range(2, CLIENTS + 2)]
    versions = api(carol).get(paths.versions(reply) + "?per_page=100").gives()["results"]
    assert [version["version"] for version in versions] == [*range(1, CLIENTS + 2)]
    bodies = {version["version"]: version["body"] for version in versions}
    assert {answer.json["version"]: answer.json["body"] for answer in answers} == {
        number: body for number, body in bodies.items() if number > 1
    }
    newest = Reply.objects.get(pk=reply.pk)
    assert (newest.version, newest.body) == (CLIENTS + 1, bodies[CLIENTS + 1])
    assert newest.body_html == markdown.render(newest.body)
    thread.refresh_from_db()
    assert (thread.reply_count, thread.participant_count) == (1, 2)
