"""…/threads/{number}/participants"""

from __future__ import annotations

from tests.factories import UserFactory
from tests.threads import paths


def people(api, thread, user, query=""):
    return api(user).get(f"{paths.thread(thread)}/participants{query}").gives()


def names(page):
    return [person["username"] for person in page["results"]]


def test_readers_see_the_author_even_before_anybody_replies(api, thread, alice, carol):
    (only,) = people(api, thread, carol)["results"]
    opened = api(carol).get(paths.thread(thread)).gives()["created_at"]
    assert only == {
        "user_uuid": str(alice.uuid),
        "username": "alice",
        "display_name": "",
        "is_bot": False,
        "is_author": True,
        "reply_count": 0,
        "first_at": opened,
        "last_at": opened,
    }


def test_the_author_comes_first_and_the_others_by_their_first_reply(api, make, thread, alice, bob):
    newt = UserFactory.create(username="newt")
    for person in (newt, bob, alice, newt):
        make.reply(thread, by=person)
    page = people(api, thread, alice)
    assert names(page) == ["alice", "newt", "bob"]
    assert [person["reply_count"] for person in page["results"]] == [1, 2, 1]
    assert [person["is_author"] for person in page["results"]] == [True, False, False]
    replies = api(alice).get(paths.replies(thread)).gives()["results"]
    newts = page["results"][1]
    assert newts["first_at"] == replies[0]["created_at"]
    assert newts["last_at"] == replies[3]["created_at"]
    assert page["results"][0]["last_at"] == replies[2]["created_at"]


def test_deleted_replies_do_not_count(api, make, thread, alice, bob, carol):
    first = make.reply(thread, by=carol)
    make.reply(thread, by=bob)
    make.reply(thread, by=carol)
    api(carol).delete(paths.reply(first)).gives(204)
    page = people(api, thread, alice)
    assert names(page) == ["alice", "bob", "carol"]
    assert page["results"][2]["reply_count"] == 1
    api(carol).delete(f"{paths.replies(thread)}/3").gives(204)
    assert names(people(api, thread, alice)) == ["alice", "bob"]


def test_participants_come_in_pages_with_the_author_on_the_first(api, make, thread, alice):
    for number in range(4):
        make.reply(thread, by=UserFactory.create(username=f"newt{number}"))
    pages, page = [], people(api, thread, alice, "?per_page=2")
    while page["next"]:
        pages.append(names(page))
        page = api(alice).get(page["next"]).gives()
    assert [*pages, names(page)] == [["alice", "newt0"], ["newt1", "newt2"], ["newt3"]]
    assert names(people(api, thread, alice, "?per_page=1")) == ["alice"]
    assert names(people(api, thread, alice, "?page=4&per_page=2")) == []
