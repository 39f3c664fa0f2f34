"""The pages of teams, people and repositories, and who may open them."""

from __future__ import annotations

import pytest

from apps.repos.models import Visibility
from apps.teams.access import access_to_team
from apps.teams.actions import update_team
from apps.teams.models import Member
from tests.principals import principal_of

PAGES = ["", "/threads", "/pulls", "/forks", "/activity", "/commits", "/branches", "/tags"]
PAGES += ["/compare"]


@pytest.mark.parametrize("below", PAGES)
def test_private_pages_ask_strangers_to_sign_in_and_public_ones_open(
    visit, make, team_repo, bob, carol, below
):
    address = f"/{team_repo.path}{below}"
    visit().get(address).redirects_to(f"/signin?next={address}", 302)
    visit(carol).get(address).gives(403)
    visit(bob).get(address).gives()
    team_repo.visibility = Visibility.PUBLIC
    team_repo.save()
    visit().get(address).gives()
    assert visit(carol).get(address).gives().h1
    visit(bob).get(f"/{team_repo.owner.path}/nothing{below}").gives(404)


def test_a_former_slug_leads_to_todays_page_for_those_who_may_read_it(
    visit, make, acme, team_repo, alice, bob, carol
):
    thread = make.thread(team_repo, by=alice)
    space = access_to_team(principal_of(alice), acme)
    update_team(by=space, name="Acme", slug="acme-two")
    old = f"/teams/acme/api/threads/{thread.number}?page=1"
    visit(bob).get(old).redirects_to(f"/teams/acme-two/api/threads/{thread.number}?page=1", 301)
    visit(bob).get("/teams/acme/~members").redirects_to("/teams/acme-two/~members", 301)
    assert "acme-two" not in visit(carol).get(old).gives(403).html
    visit().get(old).redirects_to(
        f"/signin?next=/teams/acme/api/threads/{thread.number}%3Fpage%3D1", 302
    )


def test_an_empty_repository_says_how_to_push_and_the_clone_address_leads_to_the_page(
    visit, team_repo, bob
):
    page = visit(bob).get(f"/{team_repo.path}").gives()
    assert f"git remote add origin http://testserver/{team_repo.path}.git" in page.text
    visit(bob).get(f"/{team_repo.path}.git").redirects_to(f"/{team_repo.path}", 302)


def test_a_team_shows_its_repositories_to_those_who_may_read_them(
    visit, make, acme, team_repo, alice, bob, carol
):
    make.repo(acme, "open", by=alice, visibility=Visibility.PUBLIC)
    assert "api" in visit(bob).get("/teams/acme").gives().text
    for person in (visit(), visit(carol)):
        page = person.get("/teams/acme").gives()
        assert "open" in page.text and "/teams/acme/api" not in page.html
        assert "/users/bob" not in page.html
    assert "acme" in visit(bob).get("/teams").gives().text
    assert "You are in no team" in visit(carol).get("/teams").text
    visit().get("/teams").redirects_to("/signin?next=/teams", 302)


def test_members_are_added_changed_and_removed(visit, acme, alice, bob, carol, events):
    person = visit(alice)
    assert "carol" not in person.get("/teams/acme/~members").gives().text
    with events("member-added"):
        person.post("/teams/acme/~members", username="Carol", role="viewer").redirects_to(
            "/teams/acme/~members"
        )
    again = person.post("/teams/acme/~members", username="carol", role="viewer").gives(409)
    assert again.alert() and again.value("username") == "carol"
    assert person.post("/teams/acme/~members", username="nobody", role="viewer").gives(422).alert()
    with events("member-updated"):
        person.post("/teams/acme/~members/carol/role", role="member")
    visit(bob).post("/teams/acme/~members/carol/role", role="owner").gives(403)
    visit(bob).get("/teams/acme/~members/carol/remove").gives(403)
    assert "Remove carol" in person.get("/teams/acme/~members/carol/remove").gives().text
    with events("member-removed", "member-removed"):
        person.post("/teams/acme/~members/carol/remove").redirects_to("/teams/acme/~members")
        visit(bob).post("/teams/acme/~members/bob/remove").redirects_to("/teams")
    assert [one.user.username for one in Member.objects.filter(team=acme)] == ["alice"]
    person.post("/teams/acme/~members/alice/remove").gives(409)
    person.post("/teams/acme/~members/alice/role", role="viewer").gives(409)


def test_a_person_is_shown_with_the_repositories_that_one_may_read(visit, make, alice, bob, carol):
    make.repo(alice, "secret-plan", by=alice)
    visit().get("/users/alice").redirects_to("/signin?next=/users/alice", 302)
    assert "secret-plan" not in visit(bob).get("/users/Alice").gives().text
    assert "secret-plan" in visit(alice).get("/users/alice").gives().text
    make.repo(alice, "open", by=alice, visibility=Visibility.PUBLIC)
    page = visit().get("/users/alice").gives()
    assert "open" in page.text and "secret-plan" not in page.html
    visit(bob).get("/users/nobody").gives(404)
