"""Teams that require a second factor."""

import pytest

from apps.accounts.models import User
from apps.core.access import Level
from apps.repos.access import access_to
from apps.repos.models import Repo
from apps.teams import actions
from apps.teams.models import Team
from tests.factories import MemberFactory
from tests.principals import principal_of, team_access_of
from tests.web.page_client import PageClient

CODE = "second_factor_required"


def has_factor(person, has=True):
    User.objects.filter(pk=person.pk).update(has_second_factor=has)
    person.has_second_factor = has


@pytest.fixture
def strict(acme, team_repo, alice):
    """Team acme requires a second factor. Its owner alice has one, its member bob has none."""
    has_factor(alice)
    Team.objects.filter(pk=acme.pk).update(second_factor_required=True)
    acme.refresh_from_db()
    team_repo.owner_team = acme
    return acme


def test_members_without_one_get_nothing_by_their_role(api, strict, team_repo, alice, bob, carol):
    for path in ("", "/threads", "/branches", "/pulls"):
        api(alice).get(team_repo.api_path + path).gives()
        error = api(bob).get(team_repo.api_path + path).fails(403, CODE)
        assert "/settings/second-factor" in error
        api(carol).get(team_repo.api_path + path).fails(403, "forbidden")
    for path in ("/members", "/activity"):
        api(alice).get("/teams/acme" + path).gives()
        api(carol).get("/teams/acme" + path).fails(403, "forbidden")
        api(bob).get("/teams/acme" + path).fails(403, CODE)
    thread = {"title": "t", "body": "", "kind": "issue"}
    api(bob).post(f"{team_repo.api_path}/threads", **thread).fails(403, CODE)
    api(bob).get("/events?scope=team:acme").fails(403, CODE)
    page = PageClient(bob).get(f"/{team_repo.path}").gives(403)
    assert "/settings/second-factor" in page.text


def test_lists_leave_its_repositories_out(api, make, strict, team_repo, alice, bob):
    make.thread(team_repo, by=alice)
    for path in ("/threads?search=t", "/teams/acme/repos", "/events?scope=self"):
        assert str(team_repo.uuid) not in str(api(bob).get(path).gives()), path
    assert team_repo not in Repo.objects.visible_to(principal_of(bob))
    assert Repo.objects.few_visible_to(principal_of(bob), 9) == []
    assert access_to(principal_of(bob), team_repo).granted is Level.NONE
    paths = ["/", "/activity", "/search?q=api&type=repos", "/teams/acme", "/new/repo", "/pulls"]
    for path in [*paths, "/inbox", "/users/alice"]:
        assert "acme/api" not in PageClient(bob).get(path).gives().html, path
    has_factor(bob)
    for path in paths[:3]:
        assert "acme/api" in PageClient(bob).get(path).html, path
    assert team_repo in Repo.objects.visible_to(principal_of(bob))
    assert access_to(principal_of(bob), team_repo).granted is Level.WRITE


def test_what_is_open_to_others_stays_open(api, strict, team_repo, bob):
    Repo.objects.filter(pk=team_repo.pk).update(visibility="internal")
    api(bob).get(team_repo.api_path).gives()
    thread = {"title": "t", "body": "", "kind": "issue"}
    api(bob).post(f"{team_repo.api_path}/threads", **thread).gives(201)
    api(bob).patch(team_repo.api_path, description="x").fails(403, CODE)


def test_git_refuses_with_the_reason(api, client, strict, team_repo, bob):
    headers = {"Authorization": api(bob).headers["Authorization"]}
    path = f"/{team_repo.path}.git/info/refs?service=git-upload-pack"
    refused = client.get(path, headers=headers)
    assert refused.status_code == 403 and "/settings/second-factor" in refused.text


def test_members_leave_without_one(api, strict, bob):
    api(bob).delete("/teams/acme/members/bob").gives(204)


def test_bots_are_not_asked(make, strict, team_repo, api, alice):
    access = team_access_of(alice, strict)
    bot = actions.create_bot(access=access, username="ci", role="member").user
    api(make.with_token(bot)).get(team_repo.api_path).gives()
    has_factor(alice, False)
    own = bot.tokens.get()
    api(alice).put(f"/api-tokens/{own.uuid}/rotate").fails(403, "staff_required")
    api(alice).get("/teams/acme/bots").fails(403, CODE)


def test_staff_decides_and_has_one_first(api, acme, alice, bob, sam, events):
    with events():
        for caller in (alice, bob):
            has_factor(caller)
            code = "staff_required" if caller is alice else "role_required"
            api(caller).patch("/teams/acme", second_factor_required=True).fails(403, code)
        api(sam).patch("/teams/acme", second_factor_required=True).fails(403, CODE)
    has_factor(sam)
    team = api(sam).patch("/teams/acme", second_factor_required=True).gives()
    assert team["second_factor_required"] is True
    api(alice).put("/teams/acme", name="Acme", slug="acme").gives()
    assert Team.objects.get().second_factor_required
    api(sam).patch("/teams/acme", second_factor_required=False).gives()


def test_sessions_from_before_end(acme, alice, bob, carol, sam):
    """Those of members without a second factor: the others have used one."""
    has_factor(sam)
    has_factor(alice)
    pages = {person: PageClient(person) for person in (alice, bob, carol, sam)}
    access = team_access_of(sam, acme)
    actions.update_team(access=access, second_factor_required=True)
    signed_in = {person for person, page in pages.items() if page.is_signed_in}
    assert signed_in == {alice, carol, sam}


def test_owners_see_who_has_none(api, strict, alice, bob, carol, sam):
    def flags(person):
        members = api(person).get("/teams/acme/members").gives()["results"]
        return {member["username"]: member.get("has_second_factor") for member in members}

    assert flags(alice) == flags(sam) == {"alice": True, "bob": False}
    has_factor(bob)
    assert flags(bob) == {"alice": None, "bob": None}
    page = PageClient(alice).get("/teams/acme/~members").text
    assert "no second factor" not in page
    MemberFactory.create(team=strict, user=carol)
    assert "no second factor" in PageClient(alice).get("/teams/acme/~members").text


def test_people_and_staff_see_whether_it_is_on(api, alice, bob, sam):
    has_factor(alice)
    assert api(alice).get("/users/self").gives()["has_second_factor"] is True
    assert api(sam).get("/users/alice").gives()["has_second_factor"] is True
    assert "has_second_factor" not in api(bob).get("/users/alice").gives()


def test_pages_let_staff_require_it(acme, alice, sam):
    has_factor(sam)
    page, path = PageClient(alice).get("/teams/acme/~settings").gives(), "/teams/acme/~settings"
    assert "second_factor_required" not in page.html
    fields = page.inputs() | {"second_factor_required": "on"}
    PageClient(alice).post(path, **fields).redirects_to(path)
    assert not Team.objects.get().second_factor_required
    fields = PageClient(sam).get(path).inputs() | {"second_factor_required": "on"}
    PageClient(sam).post(path, **fields).redirects_to(path)
    assert Team.objects.get().second_factor_required
    admin = PageClient(sam).get(f"/admin/teams/team/{acme.pk}/change/").gives()
    assert 'name="second_factor_required"' in admin.html
    fields = admin.inputs()
    del fields["second_factor_required"]
    PageClient(sam).post(f"/admin/teams/team/{acme.pk}/change/", **fields)
    assert not Team.objects.get().second_factor_required
