"""…/threads/{number}: reading, changing and deleting a thread."""

from __future__ import annotations

import pytest
from django.utils import timezone

from apps.events.models import Event
from apps.threads.models import Thread
from tests.factories import MemberFactory
from tests.migrations import as_of
from tests.threads import paths


def test_a_thread_is_read(api, thread, carol):
    read = api(carol).get(paths.thread(thread)).gives()
    assert (read["number"], read["uuid"]) == (1, str(thread.uuid))
    assert (read["replies"], read["replies_truncated"]) == ([], False)
    for number in (0, 2, 999_999_999):
        api(carol).get(f"{paths.threads(thread.repo)}/{number}").fails(404, "not_found")


def test_the_read_holds_500_replies_and_says_that_there_are_more(api, make, thread, alice):
    first = make.reply(thread, by=alice)
    copies = [copied(first, number) for number in range(2, 501)]
    type(first).objects.bulk_create(copies)
    whole = api(alice).get(paths.thread(thread)).gives()
    assert (len(whole["replies"]), whole["replies_truncated"]) == (500, False)
    type(first).objects.bulk_create([copied(first, 501)])
    whole = api(alice).get(paths.thread(thread)).gives()
    assert (len(whole["replies"]), whole["replies_truncated"]) == (500, True)
    assert whole["replies"][-1]["number"] == 500


def copied(reply, number):
    fields = {"thread": reply.thread, "created_by": reply.created_by, "kind": "comment"}
    return type(reply)(number=number, path=f"{number:05}", body="x", **fields)


def test_its_author_changes_a_thread(api, make, open_repo, alice, carol, events):
    thread = make.thread(open_repo, by=carol)
    with events("thread-updated") as recorded:
        changed = api(carol).patch(paths.thread(thread), title="Fast", kind="question").gives()
    assert (changed["title"], changed["kind"], changed["body"]) == ("Fast", "question", "")
    assert changed["updated_at"] == changed["last_activity_at"] > changed["created_at"]
    assert recorded[0].data == {"changed": ["title", "kind"]}
    assert recorded[0].title == "Fast"
    assert api(alice).get(paths.thread(thread)).gives()["title"] == "Fast"


def test_who_may_not_change_it_is_told_so_before_the_body_is_read(api, thread, carol):
    api(carol).patch(paths.thread(thread), colour="red").fails(403, "role_required")
    api(carol).send("PATCH", paths.thread(thread), b"[").fails(403, "role_required")


def test_a_change_of_status_speaks_for_the_whole_request(api, thread, alice, events):
    with events("thread-status-changed") as recorded:
        body = api(alice).patch(paths.thread(thread), status="closed", title="Done").gives()
    assert recorded[0].data == {"changed": ["title", "status"], "before": "open", "after": "closed"}
    assert body["closed_at"] == body["updated_at"]
    with events("thread-status-changed"):
        body = api(alice).patch(paths.thread(thread), status="in_progress").gives()
    assert (body["status"], body["closed_at"]) == ("in_progress", None)


def test_what_changes_nothing_is_no_event(api, thread, alice, events):
    before = api(alice).get(paths.thread(thread)).gives()
    with events():
        api(alice).patch(paths.thread(thread), title=thread.title, status="open").gives()
        api(alice).patch(paths.thread(thread)).gives()
    assert api(alice).get(paths.thread(thread)).gives() == before


def test_a_bad_change_is_refused_whole(api, make, team_repo, alice):
    url = paths.thread(make.thread(team_repo, by=alice, title="Old"))
    for body in (
        {"title": " "},
        {"body": None},
        {"kind": "pull"},
        {"status": "merged"},
        {"priority": 1},
    ):
        answer = api(alice).patch(url, **{"title": "New", **body})
        assert answer.fails(422, "validation_failed").startswith(next(iter(body)))
    assert api(alice).get(url).gives()["title"] == "Old"


def test_its_author_deletes_a_thread_and_it_is_gone_everywhere(api, make, open_repo, carol, events):
    thread = make.thread(open_repo, by=carol)
    reply = make.reply(thread, by=carol)
    with events("thread-deleted") as recorded:
        api(carol).delete(paths.thread(thread)).gives(204)
    assert (recorded[0].number, recorded[0].title) == (thread.number, None)
    for url in (paths.thread(thread), paths.replies(thread), paths.reply(reply)):
        api(carol).get(url).fails(404, "not_found")
    api(carol).get(f"{paths.thread(thread)}/participants").fails(404, "not_found")
    api(carol).delete(paths.thread(thread)).fails(404, "not_found")
    api(carol).delete(paths.reply(reply)).fails(404, "not_found")
    api(carol).post(paths.replies(thread), kind="comment", body="x").fails(404, "not_found")


def test_a_number_is_not_given_twice(api, make, thread, alice):
    api(alice).delete(paths.thread(thread)).gives(204)
    assert make.thread(thread.repo, by=alice).number == thread.number + 1


def test_an_author_does_not_delete_what_others_have_answered(
    api, make, open_repo, alice, carol, events
):
    thread = make.thread(open_repo, by=carol)
    answer = make.reply(thread, by=alice)
    with events():
        api(carol).delete(paths.thread(thread)).fails(409, "thread_has_replies")
    api(alice).delete(paths.reply(answer)).gives(204)
    api(carol).delete(paths.thread(thread)).gives(204)


def test_an_admin_deletes_any_thread(api, make, team_repo, alice, bob, carol, sam):
    MemberFactory.create(team=team_repo.owner, user=carol, admin=True)
    for person in (alice, carol, sam):
        thread = make.thread(team_repo, by=bob)
        make.reply(thread, by=alice)
        make.reply(thread, by=carol)
        api(person).delete(paths.thread(thread)).gives(204)


def test_write_access_is_not_enough_to_delete_somebody_elses(api, make, team_repo, alice, bob):
    thread = make.thread(team_repo, by=alice)
    answer = api(bob).delete(paths.thread(thread))
    assert "admin" in answer.fails(403, "role_required")


def test_events_of_a_deleted_thread_do_not_tell_its_title(api, make, thread, alice, carol):
    """The event of the deletion has no title either. Events of other threads keep theirs."""
    other = make.thread(thread.repo, by=alice)
    for row in (thread, other):
        make.reply(row, by=carol)
    api(alice).delete(paths.thread(thread)).gives(204)
    for person in (alice, carol):
        page = api(person).get(f"/events?scope=repo:{thread.repo.path}").gives()["results"]
        titles = [(record["kind"], record["summary"]["thread_title"]) for record in page]
        assert titles[:5] == [
            ("thread-deleted", None),
            ("reply-created", other.title),
            ("reply-created", None),
            ("thread-created", other.title),
            ("thread-created", None),
        ]


@pytest.mark.django_db(transaction=True)
def test_nor_do_those_of_what_was_deleted_before_that_was_so(make, team_repo, alice):
    thread, other = (make.thread(team_repo, by=alice) for _ in range(2))
    Thread.objects.filter(pk=thread.pk).update(deleted_at=timezone.now())
    with as_of("threads", "0005_body_html"):
        pass
    titles = dict(Event.objects.filter(kind="thread-created").values_list("thread_id", "title"))
    assert titles == {thread.pk: None, other.pk: other.title}
