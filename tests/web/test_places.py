"""The pages of teams, people and repositories, and who may open them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from apps.repos.models import Visibility
from apps.teams.access import access_to_team
from apps.teams.actions import update_team
from apps.teams.models import Member
from tests.principals import principal_of

PAGES = ["", "/threads", "/pulls", "/forks", "/activity", "/commits", "/branches", "/tags"]
PAGES += ["/compare"]


HIDDEN = [*PAGES, ".git", "/settings", "/files/README.md", "/raw/README.md", "/commits/main"]
HIDDEN += [f"/threads/1{below}" for below in ("", "/edit", "/versions", "/replies/1")]
HIDDEN += [f"/pulls/1{below}" for below in ("", "/files", "/commits", "/verdict")]
HIDDEN += ["/threads/99", "/pulls/99", "?page=x", "/threads?page=x", "/settings/protections"]


def assert_look_alike(person, addresses) -> None:
    """Anonymous people are asked to sign in, and nothing else differs."""
    answers = [person.get(address) for address in addresses]
    goal = "" if addresses[0].endswith(".git") else "/signin?next="
    for address, answer in zip(addresses, answers, strict=True):
        shown = quote(address) if goal else address.removesuffix(".git")
        answer.redirects_to(f"{goal}{shown}", 302)
    ownless = {"Location", "Content-Length", "X-Request-ID"}
    first, *others = [(set(one.response.headers) - ownless, one.html) for one in answers]
    assert all(other == first for other in others)


@pytest.mark.parametrize("below", HIDDEN)
def test_people_who_are_not_signed_in_cannot_tell_a_private_repository_from_a_missing_one(
    visit, make, team_repo, alice, below
):
    make.thread(team_repo, by=alice)
    own = make.repo(alice, "notes", by=alice, visibility=Visibility.PRIVATE)
    paths = [team_repo.path, own.path]
    paths += ["teams/acme/nothing", "teams/nobody/api", "users/alice/nothing", "users/no/api"]
    assert_look_alike(visit(), [f"/{path}{below}" for path in paths])


@pytest.mark.parametrize("below", ["", "?page=x", "?page=2", "/~members", "/~settings"])
def test_people_who_are_not_signed_in_cannot_tell_a_closed_team_from_a_missing_one(
    visit, acme, team_repo, alice, below
):
    update_team(access=access_to_team(principal_of(alice), acme), name="Acme", slug="acme-two")
    names = ["acme-two", "acme", "nothing"]
    assert_look_alike(visit(), [f"/teams/{name}{below}" for name in names])


@pytest.mark.parametrize("below", ["", "?page=x", "?page=2"])
def test_people_who_are_not_signed_in_cannot_tell_who_has_an_account(visit, alice, below):
    assert_look_alike(visit(), [f"/users/{name}{below}" for name in ("alice", "nothing")])


def test_an_unknown_number_of_a_public_repository_is_404_for_everybody(visit, make, acme, alice):
    repo = make.repo(acme, "open", by=alice, visibility=Visibility.PUBLIC)
    for person in (visit(), visit(alice)):
        person.get(f"/{repo.path}/threads/99").gives(404)
        person.get("/teams/acme?page=x").gives(422)
    visit(alice).get("/teams/acme/nothing").gives(404)


def test_a_former_slug_leads_to_todays_page_for_those_who_may_read_it(
    visit, make, acme, team_repo, alice, bob, carol
):
    thread = make.thread(team_repo, by=alice)
    space = access_to_team(principal_of(alice), acme)
    update_team(access=space, name="Acme", slug="acme-two")
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
    assert "You are not in any team" in visit(carol).get("/teams").text
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
