"""Concurrent requests have the outcome of some sequential order."""

from __future__ import annotations

from typing import Any

import pytest

from apps.core import markdown
from apps.core.errors import ApiError
from apps.events.models import Event
from apps.threads import actions
from apps.threads.models import Reply
from tests.factories import UserFactory
from tests.principals import access_of
from tests.races import together
from tests.threads import paths

pytestmark = pytest.mark.django_db(transaction=True)
BODY = {"kind": "comment", "body": "Me too."}
CLIENTS = 16


def statuses(answers: list[Any]) -> list[int]:
    return sorted(answer.status for answer in answers)


def test_of_two_deletes_of_a_reply_one_wins(api, make, thread, carol):
    reply = make.reply(thread, by=carol)
    clients = [api(carol), api(carol)]
    answers = together(*(lambda c=client: c.delete(paths.reply(reply)) for client in clients))
    assert statuses(answers) == [204, 409]
    thread.refresh_from_db()
    assert (thread.reply_count, thread.participant_count) == (0, 1)
    assert Event.objects.filter(kind="reply-deleted").count() == 1


def test_parallel_replies_get_numbers_without_gaps_or_doubles(api, make, thread, alice, carol):
    root = make.reply(thread, by=alice)
    clients = [api(carol) for _ in range(8)]
    url = paths.replies(thread)
    answers = together(
        *(lambda c=client: c.post(url, **BODY, parent_reply_number=1) for client in clients)
    )
    assert statuses(answers) == [201] * 8
    assert sorted(answer.json["number"] for answer in answers) == list(range(2, 10))
    thread.refresh_from_db()
    root.refresh_from_db()
    assert (thread.reply_count, thread.participant_count, root.live_descendants) == (9, 2, 8)


def test_parallel_threads_get_numbers_without_gaps_or_doubles(api, open_repo, alice):
    clients = [api(alice) for _ in range(8)]
    body = {"title": "x", "body": "", "kind": "issue"}
    url = paths.threads(open_repo)
    answers = together(*(lambda c=client: c.post(url, **body) for client in clients))
    assert statuses(answers) == [201] * 8
    assert sorted(answer.json["number"] for answer in answers) == list(range(1, 9))


def test_a_reply_comes_before_the_delete_of_its_thread_or_not_at_all(api, make, thread, carol):
    owned = make.thread(thread.repo, by=carol)
    replying, deleting = api(UserFactory.create(username="newt")), api(carol)
    reply, delete = together(
        lambda: replying.post(paths.replies(owned), **BODY),
        lambda: deleting.delete(paths.thread(owned)),
    )
    assert (reply.status, delete.status) in {(201, 409), (404, 204)}
    owned.refresh_from_db()
    assert (owned.reply_count, owned.deleted_at is None) in {(1, True), (0, False)}


def test_of_a_reply_and_the_delete_of_its_parent_both_are_whole(api, make, thread, carol, alice):
    parent = make.reply(thread, by=carol)
    replying, deleting = api(alice), api(carol)
    reply, delete = together(
        lambda: replying.post(paths.replies(thread), **BODY, parent_reply_number=1),
        lambda: deleting.delete(paths.reply(parent)),
    )
    assert delete.status == 204
    assert reply.status in {201, 409}
    replies = api(alice).get(paths.replies(thread)).gives()["results"]
    assert [row["is_deleted"] for row in replies] == ([True, False] if reply.status == 201 else [])


def test_whoever_comes_after_the_delete_of_a_thread_finds_none(make, thread, alice):
    late = type(thread).objects.get(pk=thread.pk)
    reply = make.reply(late, by=alice)
    by = access_of(alice, thread.repo)
    actions.delete_thread(access=by, thread=thread)
    for call in (
        lambda: make.reply(late, by=alice),
        lambda: actions.update_reply(access=by, reply=reply, body="x"),
        lambda: actions.delete_reply(access=by, reply=reply),
        lambda: actions.update_thread(access=by, thread=late, title="x"),
        lambda: actions.delete_thread(access=by, thread=late),
    ):
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.status == 404
        late.deleted_at = None
    assert not Event.objects.filter(kind__in=["reply-updated", "reply-deleted"]).exists()


# Sixteen clients that write in one thread at the same time


@pytest.fixture
def clients(api):
    return [api(UserFactory.create()) for _ in range(CLIENTS)]


@pytest.mark.slow
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


@pytest.mark.slow
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
