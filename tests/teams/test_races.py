"""Requests at the same time: one succeeds, the others are refused, and no change is partial."""

from __future__ import annotations

import pytest

from apps.accounts.models import ApiToken
from apps.events.models import Event
from apps.repos.models import Repo
from apps.teams.actions import create_bot
from apps.teams.models import MOST_BOTS, Member, Role, Team
from tests.factories import TeamFactory
from tests.principals import team_access_of
from tests.races import at_once, together

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_four_teams_with_one_slug_one_is_made(api, alice, bob, carol, sam):
    callers = [api(person) for person in (alice, bob, carol, sam)]
    answers = at_once(*(lambda c=c: c.post("/teams", name="x", slug="same") for c in callers))
    assert answers == {(201, None): 1, (409, "slug_taken"): 3}
    assert Team.objects.count() == Member.objects.count() == 1
    assert Event.objects.filter(kind="team-created").count() == 1


def test_of_two_teams_that_want_one_slug_one_gets_it(api, alice):
    for slug in ("one", "two"):
        TeamFactory.create(slug=slug, owner=alice)
    caller = api(alice)
    answers = at_once(
        lambda: caller.put("/teams/one", name="x", slug="same"),
        lambda: caller.put("/teams/two", name="x", slug="same"),
    )
    assert answers == {(200, None): 1, (409, "slug_taken"): 1}


def test_nobody_takes_a_slug_while_it_is_given_up(api, acme, alice, carol):
    giver, taker = api(alice), api(carol)
    answers = at_once(
        lambda: giver.put("/teams/acme", name="Acme", slug="guild"),
        lambda: taker.post("/teams", name="x", slug="acme"),
    )
    assert answers == {(200, None): 1, (409, "slug_taken"): 1}


def test_of_two_repos_with_one_slug_one_is_made(api, acme, alice, bob):
    callers = [api(alice), api(bob)]
    answers = at_once(
        *(lambda c=c: c.post("/teams/acme/repos", name="x", slug="same") for c in callers)
    )
    assert answers == {(201, None): 1, (409, "slug_taken"): 1}
    assert Repo.objects.count() == 1


def test_somebody_is_added_once(api, acme, alice, carol):
    caller, body = api(alice), {"username": "carol", "role": "viewer"}
    answers = at_once(*[lambda: caller.post("/teams/acme/members", **body)] * 3)
    assert answers == {(201, None): 1, (409, "member_exists"): 2}


def test_two_owners_who_leave_together_leave_one(api, acme, alice, bob):
    acme.members.filter(user=bob).update(role=Role.OWNER)
    first, second = api(alice), api(bob)
    answers = at_once(
        lambda: first.delete("/teams/acme/members/alice"),
        lambda: second.delete("/teams/acme/members/bob"),
    )
    assert answers == {(204, None): 1, (409, "last_owner"): 1}
    assert acme.members.filter(role=Role.OWNER).count() == 1


def test_a_token_that_is_deleted_twice_is_gone_once(api, alice, sam):
    uuid = api(alice).post("/api-tokens", name="x").gives(201)["uuid"]
    callers = [api(alice), api(sam)]
    answers = at_once(*(lambda c=c: c.delete(f"/api-tokens/{uuid}") for c in callers))
    assert answers == {(204, None): 1, (404, "not_found"): 1}
    assert not ApiToken.objects.filter(uuid=uuid).exists()
    assert Event.objects.filter(kind="token-deleted").count() == 1


def test_of_two_who_make_the_last_bot_one_wins(api, acme, alice, sam):
    for number in range(MOST_BOTS - 1):
        create_bot(access=team_access_of(alice, acme), username=f"bot{number}")
    first, second = api(alice), api(sam)
    answers = at_once(
        lambda: first.post("/teams/acme/bots", username="ci"),
        lambda: second.post("/teams/acme/bots", username="cd"),
    )
    assert answers == {(201, None): 1, (409, "bot_limit"): 1}
    assert acme.members.filter(user__is_bot=True).count() == MOST_BOTS


def test_a_bot_that_is_deleted_meanwhile_has_no_valid_token(api, acme, alice, sam):
    bot = create_bot(access=team_access_of(alice, acme), username="ci").user
    path, maker, deleter = "/teams/acme/bots/ci", api(sam), api(alice)
    made, _ = together(
        lambda: maker.post(f"{path}/api-tokens", name="late"), lambda: deleter.delete(path)
    )
    assert made.status in {201, 404}
    assert not bot.tokens.filter(revoked_at=None).exists()
    assert not acme.members.filter(user=bot).exists()
