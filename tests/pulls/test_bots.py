"""Reviews of bots do not count, and statuses of bots may gate merges."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.repos.actions import update_protection
from apps.statuses.actions import create_status
from apps.teams.actions import create_bot
from tests.principals import access_of, team_access_of
from tests.pulls import paths
from tests.repos import paths as repo_paths


@pytest.fixture
def bot(acme, alice) -> User:
    """A bot with write access."""
    return create_bot(access=team_access_of(alice, acme), username="ci").user


@pytest.fixture
def read(api, pull, alice):
    """The answer of `…/protection`."""
    return lambda: api(alice).get(f"{paths.pull(pull)}/protection").gives()


def test_the_approval_of_a_bot_does_not_count(api, make, pull, protection, alice, bob, bot, read):
    review = make.review(pull, by=bot)
    api(alice).post(f"{paths.pull(pull)}/merge").fails(409, "approval_required")
    record = read()
    assert (record["approval_count"], record["blocked_reasons"]) == (0, ["approval_required"])
    [given] = record["approvals"]
    assert (given["is_bot"], given["is_eligible"]) == (True, False)
    assert given["reason"] == "A bot, whose reviews do not count."
    record = api(alice).get(f"{paths.pull(pull)}/reviews/{review.uuid}").gives()
    assert (record["created_by_is_bot"], record["is_eligible"]) == (True, False)
    make.review(pull, by=bob)
    assert read()["blocked_reasons"] == []


def test_a_bot_that_requests_changes_blocks_nothing(make, pull, protection, bob, bot, read):
    make.review(pull, by=bob)
    make.review(pull, by=bot, status="changes_requested")
    record = read()
    assert (record["changes_requested_by"], record["blocked_reasons"]) == ([], [])


def test_a_bot_is_no_approver(api, make, pull, protection, alice, bot, events):
    approvers = f"{repo_paths.protections(pull.repo)}/{protection.uuid}/approvers"
    with events():
        refused = api(alice).post(approvers, username="ci").fails(422, "validation_failed")
    assert "ci is a bot" in refused


def test_bots_are_not_among_the_people_who_could_approve(
    api, make, pull, protection, alice, bob, bot
):
    path = f"{repo_paths.protections(pull.repo)}/{protection.uuid}"
    update_protection(
        access=access_of(alice, pull.repo), protection=protection, required_approvals=4
    )
    assert api(alice).get(path).gives()["is_satisfiable"] is False
    User.objects.filter(pk=bot.pk).update(is_bot=False)
    assert api(alice).get(path).gives()["is_satisfiable"] is True


def test_no_pull_waits_for_a_bot(api, pull, protection, bob, bot):
    def awaiting(name: str) -> int:
        return len(api(bob).get(f"/pulls?awaiting_review_from={name}").gives()["results"])

    assert (awaiting("bob"), awaiting("ci")) == (1, 0)


def test_a_bot_may_be_the_only_reporter_whose_statuses_count(api, pull, alice, bob, bot, read):
    url, rule = repo_paths.protections(pull.repo), {"branch": "main", "required_approvals": 0}
    rule |= {"required_statuses": ["ci"], "status_reporters": ["CI"]}
    assert api(alice).post(url, **rule).gives(201)["status_reporters"] == ["ci"]
    for person, missing in ((bob, ["ci"]), (bot, [])):
        access = access_of(person, pull.repo)
        create_status(access=access, sha=pull.head_sha, context="ci", state="success")
        assert read()["statuses_missing"] == missing
