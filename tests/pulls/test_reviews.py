"""`…/pulls/{number}/reviews`: list and create; and the people whose decisions count."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.pulls.approval import level_of_author
from apps.pulls.models import Pull, Review
from apps.teams.models import Role
from tests.factories import MemberFactory, UserFactory
from tests.principals import access_of
from tests.pulls import paths


def test_a_reader_reviews(api, bare_pull, alice, carol, events):
    url = paths.reviews(bare_pull)
    with events("review-created") as recorded:
        review = api(alice).post(url, status="approved", body="Fine.").gives(201)
    assert (review["status"], review["body"], review["pull_number"]) == ("approved", "Fine.", 1)
    assert (review["commit_sha"], review["is_stale"], review["is_eligible"]) == (None, False, True)
    assert (review["created_by_username"], review["dismissed_by_username"]) == ("alice", None)
    assert api(carol).get(f"{url}/{review['uuid']}").gives() == review
    assert recorded[0].data == {"status": "approved"}
    assert recorded[0].target == {"kind": "review", "uuid": review["uuid"], "pull_number": 1}
    assert (recorded[0].title, recorded[0].is_pull) == ("Widen the gate", True)


NO_REVIEWS: list[tuple[dict[str, Any], str]] = [
    ({}, "validation_failed"),
    ({"status": "dismissed"}, "validation_failed"),
    ({"status": "liked"}, "validation_failed"),
    ({"status": "approved", "body": None}, "validation_failed"),
    ({"status": "approved", "commit_sha": "x"}, "unknown_field"),
]


def test_a_body_that_is_no_review_is_refused(api, bare_pull, alice):
    for body, code in NO_REVIEWS:
        api(alice).post(paths.reviews(bare_pull), **body).fails(422, code)
    assert not bare_pull.reviews.exists()


def test_reviews_of_a_pull_that_is_not_there_are_not_found(api, open_repo, alice):
    url = f"{paths.pulls(open_repo)}/1/reviews"
    api(alice).get(url).fails(404, "not_found")
    api(alice).post(url).fails(404, "not_found")


def test_a_review_is_of_the_head_and_goes_stale_with_it(api, make, pull, clone, bob):
    review = make.review(pull, by=bob)
    read = api(bob).get(paths.review(review)).gives()
    assert (read["commit_sha"], read["is_stale"]) == (pull.head_sha, False)
    clone.push_commit("feature", {"window": "1"})
    read = api(bob).get(paths.review(review)).gives()
    assert (read["commit_sha"], read["is_stale"]) == (pull.head_sha, True)


def test_reviews_are_listed_oldest_first_by_page(api, make, bare_pull, alice, carol):
    for body in "abc":
        make.review(bare_pull, by=alice, status="commented", body=body)
    page = api(carol).get(f"{paths.reviews(bare_pull)}?per_page=2").gives()
    assert [row["body"] for row in page["results"]] == ["a", "b"]
    assert [row["body"] for row in api(carol).get(page["next"]).gives()["results"]] == ["c"]


@pytest.mark.parametrize("status", ["closed", "merged"])
def test_any_pull_is_reviewed_but_a_settled_one_counts_nobody(api, make, repo, alice, sam, status):
    pull = make.pull(repo, by=alice)
    Pull.objects.filter(pk=pull.pk).update(status=status)
    review = api(sam).post(paths.reviews(pull), status="approved").gives(201)
    assert (review["is_eligible"], review["reason"]) == (False, f"The pull is {status}.")


def test_a_draft_counts_reviewers(api, make, repo, alice, sam):
    pull = make.pull(repo, by=alice)
    api(alice).put(f"{paths.pull(pull)}/status", status="draft").gives()
    assert api(sam).post(paths.reviews(pull), status="approved").gives(201)["is_eligible"]


def test_who_counts_and_who_does_not(api, make, pull, clone, acme, alice, bob, carol, sam):
    """Eligibility depends on the person and not on the review's status."""
    vera = UserFactory.create(username="vera")
    MemberFactory.create(team=acme, user=vera, viewer=True)
    dan = UserFactory.create(username="dan")
    MemberFactory.create(team=acme, user=dan, admin=True)
    for person in (alice, bob, carol, sam, vera, dan):
        make.review(pull, by=person, status="commented" if person == dan else "approved")
    clone.push_commit("feature", {"window": "1"}, by=bob)
    User.objects.filter(pk=sam.pk).update(is_active=False)
    rows = api(alice).get(paths.reviews(pull)).gives()["results"]
    assert {row["created_by_username"]: row["reason"] for row in rows} == {
        "alice": "The author of the pull.",
        "bob": "Pushed the current head.",
        "carol": "No write access to the repository.",
        "sam": "The account has been deactivated.",
        "vera": "No write access to the repository.",
        "dan": None,
    }
    assert all(row["is_eligible"] == (row["reason"] is None) for row in rows)


@pytest.mark.parametrize("visibility", ["private", "internal", "public"])
def test_the_level_of_a_reviewer_is_the_one_that_access_gives(
    make, repo, acme, alice, bob, carol, sam, visibility
):
    repo.visibility = "public"  # while they write: some cannot read the repository later
    repo.save()
    for role in (Role.VIEWER, Role.ADMIN, Role.OWNER):
        MemberFactory.create(team=acme, user=UserFactory.create(username=role.value), role=role)
    pull = make.pull(repo, by=alice)
    for person in User.objects.all():
        make.review(pull, by=person)
    repo.visibility = visibility
    for person in User.objects.all():
        review: Any = Review.objects.with_people(repo).get(created_by=person)
        review.pull.repo = repo
        assert level_of_author(review) == access_of(person, repo).level
