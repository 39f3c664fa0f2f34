"""`…/pulls/{number}/reviews/{review_uuid}`: read, update, dismiss and delete."""

from __future__ import annotations

import uuid

import pytest

from apps.pulls.models import Review
from tests.factories import MemberFactory, UserFactory
from tests.pulls import paths

DECISIONS = ["approved", "changes_requested", "commented"]


@pytest.fixture
def review(make, bare_pull, carol):
    """The approval of carol, a stranger, of her own pull; reviews are always stored."""
    return make.review(bare_pull, by=carol, body="Mine.")


def test_a_review_that_is_not_on_the_pull_is_not_found(api, make, review, alice):
    other = make.pull(review.pull.repo, by=alice)
    api(alice).get(paths.review(review)).gives()
    for url in (
        f"{paths.reviews(other)}/{review.uuid}",
        f"{paths.reviews(review.pull)}/{uuid.uuid4()}",
        f"{paths.pulls(review.pull.repo)}/99/reviews/{review.uuid}",
    ):
        for answer in (api(alice).get(url), api(alice).put(url), api(alice).delete(url)):
            answer.fails(404, "not_found")


@pytest.mark.parametrize("before", [*DECISIONS, "dismissed"])
def test_every_move_is_made_or_refused(api, make, team_repo, alice, events, before):
    """alice is the author and owns the repository, so that only the statuses decide."""
    pull = make.pull(team_repo, by=alice)
    for after in (*DECISIONS, "dismissed"):
        review = make.review(pull, by=alice, status="commented")
        Review.objects.filter(pk=review.pk).update(status=before)
        dismisses, moves = after == "dismissed", before != after
        allowed = before != "dismissed" or dismisses
        kind = "review-dismissed" if dismisses else "review-updated"
        with events(*([kind] if moves and allowed else [])):
            answer = api(alice).put(paths.review(review), status=after)
        if not allowed:
            answer.fails(409, "invalid_transition")
        else:
            changed = answer.gives()
            assert changed["status"] == after
            assert changed["dismissed_by_username"] == ("alice" if dismisses and moves else None)


def test_a_review_is_changed_by_its_author_alone(api, review, alice, sam, carol, events):
    url = paths.review(review)
    for person in (alice, sam):
        for body in ({"body": "Yours."}, {"status": "commented"}, {}):
            api(person).put(url, **body).fails(403, "not_creator")
    with events("review-updated") as recorded:
        changed = api(carol).put(url, body="Ours.").gives()
    assert (changed["body"], changed["status"]) == ("Ours.", "approved")
    assert changed["updated_at"] > changed["created_at"]
    assert recorded[0].data == {"status": "approved", "changed": ["body"]}


def test_a_decision_is_about_the_head_of_its_time_and_a_word_is_not(api, make, pull, clone, bob):
    review = make.review(pull, by=bob)
    head = clone.push_commit("feature", {"window": "1"})
    url = paths.review(review)
    assert api(bob).put(url, body="Nice.").gives()["commit_sha"] == pull.head_sha
    again = api(bob).put(url, status="approved").gives()
    assert (again["commit_sha"], again["is_stale"]) == (head, False)


def test_admins_dismiss_a_review_for_good(api, make, pull, acme, bob, carol, sam, events):
    dan = UserFactory.create(username="dan")
    MemberFactory.create(team=acme, user=dan, admin=True)
    review = make.review(pull, by=bob, status="changes_requested")
    url = paths.review(review)
    api(carol).put(url, status="dismissed").fails(403, "role_required")
    api(dan).put(url, status="dismissed", body="No.").fails(403, "not_creator")
    with events("review-dismissed") as recorded:
        assert api(dan).put(url, status="dismissed").gives()["dismissed_by_username"] == "dan"
    assert recorded[0].data == {"status": "dismissed", "changed": ["status"]}
    with events():
        assert api(sam).put(url, status="dismissed").gives()["dismissed_by_username"] == "dan"
    api(bob).put(url, status="approved").fails(409, "invalid_transition")
    assert api(bob).put(url, body="As I said.").gives()["body"] == "As I said."


def test_a_body_that_is_no_change_is_refused(api, review, carol):
    for body, code in (
        ({"status": "liked"}, "validation_failed"),
        ({"uuid": "x"}, "unknown_field"),
    ):
        api(carol).put(paths.review(review), **body).fails(422, code)


def test_author_owner_and_staff_delete_a_review(
    api, make, team_repo, acme, alice, bob, sam, events
):
    dan = UserFactory.create(username="dan")
    MemberFactory.create(team=acme, user=dan, admin=True)
    pull = make.pull(team_repo, by=alice)
    review = make.review(pull, by=bob)
    api(dan).delete(paths.review(review)).fails(403, "not_creator")
    for person in (bob, alice, sam):
        with events("review-deleted"):
            api(person).delete(paths.review(review)).gives(204)
        api(person).delete(paths.review(review)).fails(404, "not_found")
        review = make.review(pull, by=bob)
