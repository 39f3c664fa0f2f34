"""/teams and /teams/{team_slug}"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from apps.teams.models import MOST_RESERVED, RESERVED_FOR, FormerTeamSlug, Team
from tests.factories import MemberFactory, TeamFactory, UserFactory


def test_a_team_is_created_by_anybody_who_then_owns_it(api, alice, events):
    with events("team-created"):
        team = api(alice).post("/teams", name="Acme", slug="acme").gives(201)
    assert team["caller_role"] == "owner"
    assert (team["name"], team["slug"], team["is_active"]) == ("Acme", "acme", True)
    assert api(alice).get("/teams").gives()["results"] == [team]
    assert api(alice).get("/teams/acme").gives() == team


def test_a_slug_is_taken_once(api, acme, alice, carol, events):
    with events():
        api(carol).post("/teams", name="Other", slug="acme").fails(409, "slug_taken")
    assert api(carol).post("/teams", name="Acme", slug="acme-2").gives(201)["name"] == "Acme"


def test_a_team_is_known_to_everybody_but_each_sees_their_own_role(api, acme, alice, bob, carol):
    for person, role in ((alice, "owner"), (bob, "member"), (carol, None)):
        assert api(person).get("/teams/acme").gives()["caller_role"] == role
    assert api(carol).get("/teams").gives()["results"] == []
    assert [row["caller_role"] for row in api(bob).get("/teams").gives()["results"]] == ["member"]


def test_staff_lists_every_team(api, acme, sam):
    TeamFactory.create(slug="zeta", owner=sam)
    assert slugs(api(sam).get("/teams?all=true")) == ["acme", "zeta"]
    assert slugs(api(sam).get("/teams?all=false")) == slugs(api(sam).get("/teams")) == ["zeta"]


def slugs(answer) -> list[str]:
    return [row["slug"] for row in answer.gives()["results"]]


def test_teams_are_listed_by_slug_and_searched_in_name_and_slug(api, alice):
    for slug, name in (("beta", "Second"), ("alpha", "First"), ("gamma", "The BETA testers")):
        api(alice).post("/teams", name=name, slug=slug).gives(201)
    assert slugs(api(alice).get("/teams")) == ["alpha", "beta", "gamma"]
    assert slugs(api(alice).get("/teams?search=BETA")) == ["beta", "gamma"]
    assert slugs(api(alice).get("/teams?search=")) == ["alpha", "beta", "gamma"]
    assert slugs(api(alice).get("/teams?search=%25")) == []
    assert slugs(api(alice).get("/teams?search=_")) == []


def test_owners_rename_and_readdress_a_team(api, acme, alice, events):
    with events("team-updated") as recorded:
        changed = api(alice).put("/teams/acme", name="Acme Ltd", slug="acme-ltd").gives()
    assert (changed["name"], changed["slug"]) == ("Acme Ltd", "acme-ltd")
    assert changed["updated_at"] > changed["created_at"]
    assert recorded[0].data == {
        "changed": ["name", "slug"],
        "before": {"name": "Acme", "slug": "acme"},
        "after": {"name": "Acme Ltd", "slug": "acme-ltd"},
    }
    assert api(alice).get("/teams/acme").status == 301
    assert api(alice).get("/teams/acme-ltd").gives() == changed


def test_an_update_that_changes_nothing_is_no_event(api, acme, alice, events):
    before = api(alice).get("/teams/acme").gives()
    with events():
        same = api(alice).put("/teams/acme", name="Acme", slug="acme", is_active=True).gives()
    assert same == before


def test_a_team_cannot_take_anothers_slug(api, acme, alice, events):
    TeamFactory.create(slug="other", owner=alice)
    with events():
        api(alice).put("/teams/acme", name="Acme", slug="other").fails(409, "slug_taken")
    assert sorted(Team.objects.values_list("slug", flat=True)) == ["acme", "other"]


@pytest.fixture
def retired(api, make, acme, alice):
    """acme, inactive, with a public repository."""
    make.repo(acme, "open", by=alice, visibility="public")
    api(alice).put("/teams/acme", name="Acme", slug="acme", is_active=False).gives()
    return "/teams/acme"


INSIDE = ["/members", "/members/alice", "/repos", "/repos/open", "/repos/open/threads"]


def test_members_and_staff_still_read_an_inactive_team(api, retired, alice, bob, carol, sam):
    for path in INSIDE:
        api(carol).get(retired + path).fails(403, "team_inactive")
        for person in (alice, bob, sam):
            api(person).get(retired + path).gives()


def test_nobody_writes_to_an_inactive_team(api, acme, retired, alice, bob, sam, events):
    MemberFactory.create(team=acme, user=UserFactory.create(username="vera"), viewer=True)
    thread = {"title": "t", "body": "", "kind": "issue"}
    with events():
        for person in (alice, bob, sam):
            caller = api(person)
            caller.post(f"{retired}/repos", name="x", slug="x").fails(403, "team_inactive")
            caller.put(f"{retired}/repos/open", name="x", slug="x").fails(403, "team_inactive")
            caller.post(f"{retired}/repos/open/threads", **thread).fails(403, "team_inactive")
            caller.delete(f"{retired}/members/vera").fails(403, "team_inactive")
            body = {"username": "carol", "role": "viewer"}
            caller.post(f"{retired}/members", **body).fails(403, "team_inactive")


def test_everybody_may_leave_an_inactive_team_but_the_last_owner(
    api, acme, retired, alice, bob, carol, events
):
    with events("member-removed"):
        api(alice).delete(f"{retired}/members/alice").fails(409, "last_owner")
        api(carol).delete(f"{retired}/members/carol").fails(403, "team_inactive")
        api(bob).delete(f"{retired}/members/alice").fails(403, "team_inactive")
        api(bob).put(f"{retired}/members/bob", role="viewer").fails(403, "team_inactive")
        api(bob).delete(f"{retired}/members/BOB").gives(204)
    api(bob).get(retired).fails(403, "team_inactive")
    assert [member.user for member in acme.members.all()] == [alice]


def test_an_inactive_team_is_revived_by_its_owners(api, retired, alice, bob, events):
    body = {"name": "Acme", "slug": "acme", "is_active": True}
    api(bob).put(retired, **body).fails(403, "role_required")
    with events("team-updated") as recorded:
        assert api(alice).put(retired, **body).gives()["is_active"] is True
    assert recorded[0].data["changed"] == ["is_active"]
    api(bob).post(f"{retired}/repos", name="x", slug="x").gives(201)


def test_an_inactive_team_is_closed_to_strangers_and_can_be_renamed(api, retired, alice, carol):
    api(carol).get(retired).fails(403, "team_inactive")
    assert api(alice).put(retired, name="Was Acme", slug="acme").gives()["is_active"] is False


def rename(caller, slug, to):
    return caller.put(f"/teams/{slug}", name="Acme", slug=to)


@pytest.fixture
def wandering(api, acme, alice) -> str:
    """The slug of a team that has given up as many as are kept for it."""
    slugs = ["acme", *(f"acme-{number}" for number in range(MOST_RESERVED))]
    for slug, to in pairwise(slugs):
        rename(api(alice), slug, to).gives()
    return slugs[-1]


def test_a_team_that_holds_many_former_slugs_gives_up_no_further_one(
    api, wandering, alice, carol, sam, events
):
    with events():
        for person in (alice, sam):
            answer = rename(api(person), wandering, "one-more")
            assert "10 former slugs" in answer.fails(429, "rate_limited")
            wait = int(answer.response.headers["Retry-After"])
            assert timedelta(days=89) < timedelta(seconds=wait) <= RESERVED_FOR
        api(carol).post("/teams", name="x", slug="acme").fails(409, "slug_taken")
    assert api(alice).put(f"/teams/{wandering}", name="Other", slug=wandering).gives()
    rename(api(alice), wandering, "acme-3").gives()
    rename(api(alice), "acme-3", "acme").gives()
    rename(api(alice), "acme", "one-more").fails(429, "rate_limited")


def test_it_may_again_when_the_oldest_is_kept_no_longer(api, wandering, alice):
    FormerTeamSlug.objects.filter(slug="acme").update(given_up_at=timezone.now() - RESERVED_FOR)
    rename(api(alice), wandering, "one-more").gives()
    rename(api(alice), "one-more", "two-more").fails(429, "rate_limited")
    assert api(alice).get("/teams/acme").status == 301
