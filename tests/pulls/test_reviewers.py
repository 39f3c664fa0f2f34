"""…/pulls/{number}/reviewers: people who are asked to review a pull."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.events.models import Event, Ping
from apps.events.record import rename_person
from apps.pulls.models import ReviewRequest
from apps.pulls.queries import own_pulls, pulls_awaiting
from apps.teams.actions import create_bot
from apps.teams.models import Member
from tests.api import Api
from tests.principals import principal_of, team_access_of
from tests.pulls import paths

ASKED, TAKEN_BACK = "review-requested", "review-request-removed"


@pytest.fixture
def url(pull):
    return f"{paths.pull(pull)}/reviewers"


@pytest.fixture
def asked(api, pull, url, alice):
    """`asked("bob", …)` makes alice ask these people, and no others."""
    return lambda *names: api(alice).put(url, reviewers=[*names])


@pytest.fixture
def named(api, pull, alice):
    """The usernames in `requested_reviewers` of the pull, in its record and in the list."""

    def read():
        record = api(alice).get(paths.pull(pull)).gives()
        assert api(alice).get(paths.pulls(pull.repo)).gives()["results"] == [record]
        return [one["username"] for one in record["requested_reviewers"]]

    return read


def awaiting(api, person) -> list[str]:
    rows = api(person).get("/pulls?awaiting_review_from=self").gives()["results"]
    return [row["title"] for row in rows]


def pinged() -> list[tuple[str, str]]:
    return [*Ping.objects.order_by("pk").values_list("user__username", "kind")]


def test_people_are_asked_pinged_and_shown(api, pull, url, asked, named, alice, bob, sam, events):
    assert named() == awaiting(api, bob) == []
    with events(ASKED, ASKED) as recorded:
        record = asked("BOB", "sam", "bob").gives()
    assert [event.data for event in recorded] == [{"username": "bob"}, {"username": "sam"}]
    assert recorded[0].target == {"kind": "pull", "number": pull.number}
    assert pinged() == [("bob", "review_requested"), ("sam", "review_requested")]
    assert record["reviewers"] == named() == ["bob", "sam"]
    first = record["requests"][0]
    expected = {"user_uuid": str(bob.uuid), "username": "bob", "requested_by_username": "alice"}
    assert {name: first[name] for name in expected} == expected
    assert (first["state"], first["review_uuid"]) == ("pending", None)
    assert api(bob).get(url).gives() | {"suggestions": []} == record | {"suggestions": []}
    assert awaiting(api, bob) == awaiting(api, sam) == ["Add an arch"]
    with events():
        asked("bob", "sam").gives()
    with events(TAKEN_BACK) as recorded:
        asked("sam").gives()
    assert recorded[0].data == {"username": "bob"}
    assert named() == ["sam"] and awaiting(api, bob) == []
    assert len(pinged()) == 2


@pytest.mark.parametrize("status", ["approved", "changes_requested", "commented"])
def test_a_review_fulfils_a_request_and_asking_again_renews_it(
    api, make, pull, asked, named, bob, status, events
):
    make.review(pull, by=bob, status="commented")
    asked("bob").gives()
    assert named() == ["bob"], "an earlier review fulfils no request"
    review = make.review(pull, by=bob, status=status)
    assert named() == awaiting(api, bob) == []
    record = api(bob).get(f"{paths.pull(pull)}/reviewers").gives()
    [one] = record["requests"]
    assert (one["state"], one["review_uuid"]) == (status, str(review.uuid))
    assert record["reviewers"] == []
    with events():
        asked().gives()
    with events(ASKED):
        assert asked("bob").gives()["reviewers"] == ["bob"]
    assert named() == ["bob"] and awaiting(api, bob) == ["Add an arch"]
    assert ReviewRequest.objects.count() == 1


def test_the_same_decision_again_fulfils_a_new_request(api, make, pull, asked, named, bob, events):
    review = make.review(pull, by=bob)
    asked("bob").gives()
    with events("review-updated"):
        api(bob).put(paths.review(review), status="approved").gives()
    assert named() == []
    with events():
        api(bob).put(paths.review(review), status="approved").gives()


def test_a_dismissed_or_deleted_review_fulfils_no_request(
    api, make, pull, asked, named, alice, bob
):
    asked("bob").gives()
    review = make.review(pull, by=bob)
    api(alice).put(paths.review(review), status="dismissed").gives()
    assert named() == ["bob"] and awaiting(api, bob) == ["Add an arch"]
    other = make.review(pull, by=bob)
    assert named() == []
    api(bob).delete(paths.review(other)).gives(204)
    assert named() == ["bob"]


def test_a_draft_pings_when_it_becomes_ready(api, pull, asked, named, alice, bob):
    api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    asked("bob").gives()
    assert named() == ["bob"] and not pinged() and not awaiting(api, bob)
    api(alice).put(f"{paths.pull(pull)}/status", status="open").gives()
    assert pinged() == [("bob", "review_requested")]
    assert awaiting(api, bob) == ["Add an arch"]


def test_a_closed_pull_waits_for_nobody_until_it_is_reopened(
    api, pull, asked, named, alice, bob, events
):
    asked("bob").gives()
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    assert named() == awaiting(api, bob) == []
    with events():
        asked("sam").fails(409, "pull_closed")
    api(alice).put(f"{paths.pull(pull)}/status", status="open").gives()
    assert named() == ["bob"] and awaiting(api, bob) == ["Add an arch"]
    api(alice).post(f"{paths.pull(pull)}/merge").gives()
    asked("sam").fails(409, "pull_already_merged")
    assert named() == []


REFUSED = {
    "carol": "reviewer_lacks_access",
    "nobody": "user_not_found",
    "alice": "validation_failed",
    "ci": "validation_failed",
    "gone": "validation_failed",
}


@pytest.mark.parametrize("name", REFUSED)
def test_people_who_cannot_review_are_refused(api, pull, asked, named, acme, alice, name, events):
    create_bot(access=team_access_of(alice, acme), username="ci")
    gone = User.objects.create(username="gone", is_active=False)
    Member.objects.create(team=acme, user=gone, role="member")
    pull.repo.visibility = "private"
    pull.repo.save()
    with events():
        asked("bob", name).fails(422, REFUSED[name])
    assert named() == []


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({}, "validation_failed"),
        ({"reviewers": None}, "validation_failed"),
        ({"reviewers": "bob"}, "validation_failed"),
        ({"reviewers": [f"bob{n}" for n in range(21)]}, "validation_failed"),
        ({"reviewers": [], "team_reviewers": []}, "unknown_field"),
    ],
)
def test_invalid_requests_are_refused(api, url, alice, sent, code):
    api(alice).put(url, **sent).fails(422, code)


def test_people_who_may_not_edit_the_pull_ask_nobody(api, make, pull, url, alice, carol, events):
    own = make.pull(pull.repo, by=carol, source="other")
    reading = Api(make.scoped_token(alice, permission="read"))
    with events():
        api(carol).put(url, reviewers=["bob"]).fails(403, "role_required")
        reading.put(url, reviewers=["bob"]).fails(403, "token_scope")
    assert api(carol).get(url).gives()["suggestions"] == []
    api(carol).put(f"{paths.pull(own)}/reviewers", reviewers=["bob"]).gives()


def test_people_who_lose_access_are_not_pending(api, pull, asked, named, acme, alice, bob, sam):
    asked("bob", "sam").gives()
    pull.repo.visibility = "private"
    pull.repo.save()
    Member.objects.filter(team=acme, user=bob).delete()
    assert named() == ["sam"] and awaiting(api, bob) == []
    assert [one.user for one in own_pulls(principal_of(alice), 9)[0].requests] == [sam]
    Member.objects.create(team=acme, user=bob, role="viewer")
    assert named() == ["bob", "sam"] and awaiting(api, bob) == ["Add an arch"]
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert named() == ["sam"]
    assert asked("sam").gives()["reviewers"] == ["sam"]
    User.objects.filter(pk=bob.pk).update(is_active=True)
    assert named() == ["bob", "sam"]


def test_home_names_the_person_who_asked(api, pull, url, sam, bob):
    api(sam).put(url, reviewers=["bob"]).gives()
    [waiting] = pulls_awaiting(principal_of(bob), 9)
    assert getattr(waiting, "asked_by", None) == "sam"


def test_a_request_is_activity(api, pull, asked, alice):
    before = api(alice).get(paths.pull(pull)).gives()
    asked("bob").gives()
    after = api(alice).get(paths.pull(pull)).gives()
    for name in ("updated_at", "last_activity_at"):
        assert after[name] > before[name]


def test_the_events_of_a_deleted_account_do_not_name_it(asked, bob):
    asked("bob").gives()
    rename_person("bob", "deleted-1")
    assert Event.objects.get(kind=ASKED).data == {"username": "deleted-1"}
