"""Companion threads: threads that belong to a pull and mirror it."""

from __future__ import annotations

from tests.threads import paths


def test_a_companion_is_read_but_not_listed(api, companion, alice):
    assert api(alice).get(paths.threads(companion.repo)).gives()["results"] == []
    read = api(alice).get(paths.thread(companion)).gives()
    assert (read["kind"], read["title"]) == ("pull", "Renew the lease")
    assert read["web_url"] == f"http://testserver/{companion.repo.path}/pulls/1"
    assert read["api_url"].endswith("/threads/1")
    people = api(alice).get(f"{paths.thread(companion)}/participants").gives()["results"]
    assert [person["username"] for person in people] == ["alice"]


def test_what_mirrors_the_pull_is_not_changed_here(api, companion, alice, events):
    before = api(alice).get(paths.thread(companion)).gives()
    with events():
        for body in (
            {"title": "New"},
            {"body": "New"},
            {"kind": "issue"},
            {"status": "closed"},
            {"status": "open"},
            {"priority": "high", "title": "New"},
        ):
            api(alice).patch(paths.thread(companion), **body).fails(409, "invalid_transition")
    assert api(alice).get(paths.thread(companion)).gives() == before


def test_its_priority_is_its_own_and_reported_by_the_pull(api, companion, alice, events):
    with events("pull-updated") as recorded:
        changed = api(alice).patch(paths.thread(companion), priority="high").gives()
    assert changed["priority"] == "high"
    assert recorded[0].data == {"changed": ["priority"]}
    assert recorded[0].target == {"kind": "pull", "number": companion.number}
    assert (recorded[0].is_pull, recorded[0].thread_id) == (True, companion.pk)
    assert recorded[0].web_suffix == recorded[0].api_suffix == "/pulls/1"


def test_a_companion_stays_with_its_pull(api, companion, alice):
    api(alice).delete(paths.thread(companion)).fails(409, "invalid_transition")


def test_replies_in_it_are_events_of_the_thread_and_the_pull(api, companion, carol, events):
    url = paths.replies(companion)
    with events("reply-created", "reply-updated", "reply-deleted") as recorded:
        api(carol).post(url, kind="comment", body="Good.").gives(201)
        api(carol).patch(f"{url}/1", body="Very good.").gives()
        api(carol).delete(f"{url}/1").gives(204)
    assert {event.is_pull for event in recorded} == {True}
    assert {event.thread_id for event in recorded} == {companion.pk}
    assert recorded[0].target == {"kind": "reply", "number": 1, "thread_number": companion.number}
    assert recorded[0].web_suffix == "/pulls/1#reply-1"
    assert recorded[0].api_suffix == "/threads/1/replies/1"


def test_a_closed_companion_still_takes_replies(api, make, companion, alice):
    assert companion.revise(status="closed") == ["status"]
    assert companion.closed_at is not None
    api(alice).post(paths.replies(companion), kind="comment", body="Why?").gives(201)
