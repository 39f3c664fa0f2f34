"""The pages that create and change teams, repositories and forks."""

import re

import pytest
from rest_framework.serializers import CharField

from apps.repos.models import Fork, ForkStatus, Protection, Repo, Visibility
from apps.teams.models import Team
from apps.teams.serializers import UpdateTeam
from tests.factories import ForkFactory, MemberFactory
from tests.web.page_client import PageResponse

pytestmark = pytest.mark.once
NEW = {"name": "New one", "slug": "new-one", "description": "", "visibility": "internal"}


def marked(page: PageResponse, name: str) -> list[str]:
    """The selected values of the menus and radio buttons with this name."""
    menus = re.findall(rf'<select name="{name}".*?</select>', page.html, re.DOTALL)
    chosen = [one for menu in menus for one in re.findall(r'value="([^"]*)" selected', menu)]
    radios = re.findall(rf'<input type="radio" name="{name}"[^>]* checked', page.html)
    return chosen + [re.findall(r'value="([^"]*)"', radio)[0] for radio in radios]


def test_a_team_is_made_and_belongs_to_who_made_it(visit, acme, carol, events):
    person = visit(carol)
    visit().get("/new/team").redirects_to("/signin?next=/new/team", 302)
    assert 'href="/new/team"' in person.get("/teams").gives().html
    with events():
        taken = person.post("/new/team", name="Acme two", slug="acme").gives(409)
        assert taken.alert() and taken.value("name") == "Acme two"
        wrong = person.post("/new/team", name="Wrong", slug="No Slug").gives(422)
        assert 'href="#id_slug"' in wrong.html and wrong.value("slug") == "No Slug"
        assert visit().post("/new/team", name="Lost?", slug="x").gives(401).text.count("Lost?")
    with events("team-created"):
        person.post("/new/team", name="Masons", slug="masons").redirects_to("/teams/masons")
    page = person.get("/teams/masons").gives()
    assert "You are its owner" in page.text and "Create the first" in page.text
    assert 'href="/new/repo?owner=teams/masons"' in page.html


TEXTS = [
    name
    for name, field in UpdateTeam().fields.items()
    if isinstance(field, CharField) and name != "slug"
]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_a_team_is_in_record_and_event_and_on_both_pages(
    name, visit, api, acme, alice, events
):
    person, settings = visit(alice), "/teams/acme/~settings"
    sent = {"name": acme.name, "slug": "acme", name: "Quayside"}
    with events("team-updated") as recorded:
        person.post(settings, **sent).redirects_to(settings)
    assert recorded[0].data["after"] == {name: "Quayside"}
    assert api(alice).get("/teams/acme").gives()[name] == "Quayside"
    assert "Quayside" in person.get("/teams/acme").gives().html.partition("<main")[2]
    assert person.get(settings).gives().value(name) == "Quayside"
    changed = api(alice).put("/teams/acme", **{**sent, name: "Harbour"}).gives()
    assert changed[name] == "Harbour"
    assert api(alice).get("/teams").gives()["results"] == [changed]


def test_a_repository_is_made_where_one_may_write(visit, acme, alice, bob, carol, events):
    MemberFactory.create(team=acme, user=carol, viewer=True)
    for person, may in ((bob, True), (carol, False)):
        page = visit(person).get("/new/repo").gives()
        assert marked(page, "owner") == [f"users/{person}"]
        assert ('value="teams/acme"' in page.html) == may
    assert marked(visit(bob).get("/new/repo?owner=teams/acme"), "owner") == ["teams/acme"]
    visit(carol).get("/new/repo?owner=teams/acme").gives(403)
    visit(carol).get("/new/repo?owner=users/alice").gives(403)
    for nobody in ("teams/none", "users/none", "acme", "users/a%00b"):
        visit(carol).get(f"/new/repo?owner={nobody}").gives(404)
    with events():
        page = visit(carol).post("/new/repo", owner="teams/acme", **NEW).gives(403)
        assert page.alert() and page.value("name") == "New one"
        gone = visit(carol).post("/new/repo", owner="teams/none", **NEW).gives(404)
        assert gone.alert() and gone.value("slug") == "new-one"
    with events("repo-created"):
        visit(bob).post("/new/repo", owner="teams/acme", **NEW).redirects_to("/teams/acme/new-one")
    made = Repo.objects.get(slug="new-one")
    assert (made.visibility, made.description) == (Visibility.INTERNAL, None)
    with events():
        again = visit(bob).post("/new/repo", owner="teams/acme", **NEW).gives(409)
        assert "taken" in again.alert() and marked(again, "visibility") == ["internal"]
        assert marked(again, "owner") == ["teams/acme"]
        odd = visit(bob).post("/new/repo", **{**NEW, "owner": "users/bob", "slug": "x.git"})
        assert 'href="#id_slug"' in odd.gives(422).html


def test_admins_of_a_repository_change_what_people_see_of_it(visit, team_repo, alice, bob, events):
    settings = f"/{team_repo.path}/settings"
    assert f'href="{settings}"' not in visit(bob).get(f"/{team_repo.path}").gives().html
    person = visit(alice)
    assert f'href="{settings}"' in person.get(f"/{team_repo.path}").gives().html
    page = person.get(settings).gives()
    shown = page.inputs() | {"visibility": "private", "description": "", "initial-description": ""}
    with events("repo-updated"):
        changed = {"name": "The API", "visibility": "internal", "description": "a\r\nb"}
        person.post(settings, **shown | changed).redirects_to(settings)
    with events("repo-updated"):
        # An outdated page does not undo changes to values that it has not changed.
        person.post(settings, **shown | {"slug": "api-two"})
    team_repo.refresh_from_db()
    expected = ("The API", "api-two", "internal", "a\nb")
    assert (team_repo.name, team_repo.slug, team_repo.visibility, team_repo.description) == expected
    person.get("/teams/acme/api").redirects_to("/teams/acme/api-two", 301)


def test_a_refused_change_of_a_repository_keeps_what_was_typed(
    visit, make, acme, team_repo, alice, events
):
    make.repo(acme, "taken", by=alice)
    person, settings = visit(alice), f"/{team_repo.path}/settings"
    shown = person.get(settings).gives().inputs() | {"visibility": "private"}
    with events():
        taken = person.post(settings, **shown | {"slug": "taken", "name": "Kept"}).gives(409)
        assert "taken" in taken.alert() and taken.value("name") == "Kept"
        assert f'action="{settings}"' in taken.html and "/teams/acme/taken" not in taken.html
        none = person.post(settings, **shown | {"default_branch": "no..ne"}).gives(422)
        assert 'href="#id_default_branch"' in none.html
        wrong = person.post(settings, **shown | {"visibility": "secret"}).gives(422)
        assert 'href="#id_visibility"' in wrong.html


def test_an_archived_repository_can_only_be_opened_again(visit, team_repo, alice, bob, events):
    settings = f"/{team_repo.path}/settings"
    person = visit(alice)
    shown = person.get(settings).inputs() | {"visibility": "private"}
    with events("repo-updated"):
        person.post(f"{settings}/archive", is_archived="true").redirects_to(settings)
    page = person.get(settings).gives()
    assert "Unarchive" in page.text and 'name="slug"' not in page.html
    with events():
        person.post(settings, **shown | {"name": "Late"}).gives(409)
        wanted = {"branch": "main", "required_approvals": "1"}
        assert person.post(f"{settings}/protections", **wanted).gives(409).alert()
        person.post(f"/{team_repo.path}/forks", owner="users/alice").gives(409)
    with events("repo-updated"):
        person.post(f"{settings}/archive", is_archived="false").redirects_to(settings)


def test_branches_are_protected_and_the_page_says_what_that_matches(
    visit, team_repo, alice, bob, events
):
    person, address = visit(alice), f"/{team_repo.path}/settings/protections"
    for name in ("main", *(f"release/{n}" for n in range(7))):
        team_repo.refs.create(full_name=f"refs/heads/{name}", sha="1" * 40)
    assert "No branch is protected" in person.get(address).gives().text
    with events("protection-created"):
        person.post(address, branch="release/*", required_approvals="2").redirects_to(address)
    with events():
        again = person.post(address, branch="release/*", required_approvals="1").gives(409)
        assert "already" in again.alert() and again.value("branch") == "release/*"
        for wrong in ({"branch": "a**", "required_approvals": "1"}, {"branch": "x"}):
            assert person.post(address, **wrong).gives(422).alert()
    page = person.get(address).gives()
    assert "2 approvals · Approvers: anybody with write access" in page.text
    assert "Matches now: release/6" in page.text and "and 2 more" in page.text
    made = Protection.objects.get()
    own = f"{address}/{made.uuid}"
    shown = person.get(own).gives().inputs()
    with events("protection-updated"):
        person.post(own, **shown | {"required_approvals": "0"}).redirects_to(address)
    with events("approver-added"):
        person.post(f"{own}/approvers", username="bob").redirects_to(own)
    with events():
        for name, status in (("bob", 409), ("nobody", 422), ("", 422)):
            refused = person.post(f"{own}/approvers", username=name).gives(status)
            assert refused.alert() and refused.value("username") == name
            assert refused.value("required_approvals") == "0"
    assert "0 approvals · Approvers: bob" in person.get(address).text
    assert "as an approver?" in person.get(f"{own}/approvers/{bob.uuid}/remove").gives().h1
    with events("approver-removed", "protection-deleted"):
        person.post(f"{own}/approvers/{bob.uuid}/remove").redirects_to(own)
        assert "Delete the protection" in person.get(f"{own}/delete").gives().h1
        person.post(f"{own}/delete").redirects_to(address)
    person.get(own).gives(404)


def test_a_refused_change_of_a_protection_leaves_its_name_on_the_page(
    visit, make, team_repo, alice, events
):
    make.protection(team_repo, "main", by=alice)
    made = make.protection(team_repo, "next", by=alice)
    address = f"/{team_repo.path}/settings/protections/{made.uuid}"
    person = visit(alice)
    shown = person.get(address).gives().inputs()
    with events():
        page = person.post(address, **shown | {"branch": "main"}).gives(409)
    assert page.h1 == "Protection of next" and page.value("branch") == "main"


def test_a_fork_is_asked_for_and_the_page_says_how_far_it_is(visit, team_repo, bob, carol, events):
    team_repo.visibility = Visibility.PUBLIC
    team_repo.save()
    address = f"/{team_repo.path}/forks"
    assert f'href="{address}"' in visit().get(f"/{team_repo.path}").gives().html
    assert "Sign in" in visit().get(address).gives().text
    person = visit(bob)
    assert marked(person.get(address).gives(), "owner") == ["users/bob"]
    visit(carol).post(address, owner="teams/acme").gives(403)
    with events():
        answer = person.post(address, owner="users/bob")
        fork = Fork.objects.get()
        answer.redirects_to(f"{address}#fork-{fork.uuid}")
        assert "already" in person.post(address, owner="users/bob").gives(409).alert()
    waiting = person.get(address).gives()
    assert "Waiting" in waiting.text
    assert f'href="{address}">Refresh' in waiting.html  # a fragment would only scroll
    assert "users/bob" not in visit(carol).get(address).gives().text
    Fork.objects.update(status=ForkStatus.FAILED, error="There is no room.")
    assert "There is no room." in person.get(address).text
    ForkFactory.create(upstream=team_repo, owner=bob, created_by=bob, repo__slug="copy")
    assert 'href="/users/bob/copy"' in visit().get(address).gives().html


def test_owners_change_a_team_and_retire_it(visit, acme, team_repo, alice, bob, events):
    settings = "/teams/acme/~settings"
    assert settings not in visit(bob).get("/teams/acme").gives().html
    person = visit(alice)
    assert settings in person.get("/teams/acme").gives().html
    Team.objects.create(name="Other", slug="other")
    shown = person.get(settings).gives().inputs()
    with events():
        taken = person.post(settings, **shown | {"slug": "other", "name": "Kept"}).gives(409)
        assert taken.value("name") == "Kept" and 'href="/teams/acme"' in taken.html
        assert person.post(settings, **shown | {"slug": "A B"}).gives(422).alert()
    with events("team-updated", "team-updated"):
        person.post(settings, **shown | {"name": "Acme & sons"}).redirects_to(settings)
        person.post(settings, **shown | {"slug": "acme2"}).redirects_to("/teams/acme2/~settings")
    acme.refresh_from_db()
    assert (acme.name, acme.slug) == ("Acme & sons", "acme2")
    person.get(settings).redirects_to("/teams/acme2/~settings", 301)
    retire = "/teams/acme2/~settings/active"
    assert "Deactivate Acme & sons?" in person.get(retire).gives().h1
    with events("team-updated"):
        person.post(retire, is_active="false").redirects_to("/teams/acme2/~settings")
    assert "is inactive" in person.get("/teams/acme2/~settings").gives().text
    with events("team-updated"):
        person.post(retire, is_active="true").redirects_to("/teams/acme2/~settings")


@pytest.mark.parametrize("path", ["/users/bob", "/teams"])
def test_empty_lists_lead_to_what_can_be_made(visit, bob, path):
    assert "/new/" in visit(bob).get(path).gives().html.partition("<main")[2]


def test_a_form_that_has_grown_old_comes_back_with_what_was_typed(visit, team_repo, alice, events):
    person, ours = visit(alice, strict=True), {"Sec-Fetch-Site": "same-origin"}
    repo, team = f"/{team_repo.path}", "/teams/acme"
    forms = ["/new/team", "/new/repo", f"{repo}/settings", f"{team}/~settings"]
    with events():
        for path in forms:
            page = person.post(path, ours, name="Typed", slug="typed", owner="teams/acme")
            assert "Your page was out of date" in page.gives(403).alert(), path
            assert (page.value("name"), page.value("slug")) == ("Typed", "typed"), path
        page = person.post(f"{repo}/settings/protections", ours, branch="typed/*")
        assert page.gives(403).value("branch") == "typed/*"
        for path in (f"{repo}/settings/archive", f"{team}/~settings/active", f"{repo}/forks"):
            person.post(path, ours, is_archived="true", is_active="false").gives(403)
