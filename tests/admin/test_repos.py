"""Staff changes teams, repositories and protections, and reads forks."""

from apps.repos.models import Fork, Protection, Repo
from apps.teams.models import Team
from tests.admin.test_accounts import errors
from tests.admin.urls import admin_url, row_url
from tests.factories import ForkFactory, TeamFactory
from tests.gitclient import Clone


def test_a_team_is_renamed_and_retired(staff, acme, alice, events):
    TeamFactory.create(slug="taken", owner=alice)
    same = {"name": "Acme", "slug": "acme", "is_active": "on"}
    with events():
        assert "errorlist" in staff.post(row_url(acme), **{**same, "slug": "No!"}).gives().html
        refused = staff.post(row_url(acme), **{**same, "slug": "taken"}).gives(409)
        assert "is taken" in errors(refused) and 'value="taken"' in refused.html
        staff.post(row_url(acme), **same).redirects_to(admin_url(Team), 302)
    with events("team-updated") as recorded:
        staff.post(row_url(acme), name="Acme", slug="acme").redirects_to(admin_url(Team), 302)
    before, after = {"is_active": True}, {"is_active": False}
    assert recorded[0].data == {"changed": ["is_active"], "before": before, "after": after}
    page = staff.get(row_url(acme)).text
    assert "alice owner" in page and "bob member" in page


def test_a_repository_is_archived_and_opened_again(staff, repo, events):
    with events("repo-updated"):
        staff.post(row_url(repo, "archive")).redirects_to(row_url(repo), 302)
        staff.post(row_url(repo, "archive")).redirects_to(row_url(repo), 302)
    with events():
        refused = staff.post(row_url(repo), default_branch="next").gives(409)
        assert "is archived" in errors(refused)
    with events("repo-updated"):
        staff.post(row_url(repo, "unarchive")).redirects_to(row_url(repo), 302)


def test_the_default_branch_has_to_exist(
    staff, team_repo, alice, tmp_path, events, django_capture_on_commit_callbacks
):
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "First\n"})
    clone.commit("next", {"README": "Second\n"}, onto="main")
    clone.push("main", "next")
    with events():
        refused = staff.post(row_url(team_repo), default_branch="nowhere").gives(422)
        assert "There is no branch" in errors(refused)
    with events("repo-updated"), django_capture_on_commit_callbacks(execute=True):
        staff.post(row_url(team_repo), default_branch="next").redirects_to(admin_url(Repo), 302)
    assert team_repo.git.head_branch() == "next"


def test_an_old_page_of_a_team_takes_back_no_new_slug(staff, api, acme, alice, events):
    shown = staff.get(row_url(acme)).inputs()
    api(alice).put("/teams/acme", name="Guild", slug="guild").gives()
    del shown["is_active"]
    with events("team-updated") as recorded:
        staff.post(row_url(acme), **shown).redirects_to(admin_url(Team), 302)
    assert recorded[0].data["changed"] == ["is_active"]


def test_more_approvals_are_asked_for(staff, make, team_repo, acme, alice, events):
    row = make.protection(team_repo, by=alice)
    with events():
        for number in ("-1", "21", "many"):
            assert "errorlist" in staff.post(row_url(row), required_approvals=number).gives().html
    with events("protection-updated"):
        staff.post(row_url(row), required_approvals="2").redirects_to(admin_url(Protection), 302)
    with events():
        Team.objects.filter(pk=acme.pk).update(is_active=False)
        assert "deactivated" in errors(staff.post(row_url(row), required_approvals="3").gives(403))
        staff.post(row_url(row, "remove")).redirects_to(row_url(row), 302)
    assert "2 approvals" in staff.get(row_url(team_repo)).text
    with events("protection-deleted"):
        Team.objects.filter(pk=acme.pk).update(is_active=True)
        staff.post(row_url(row, "remove")).redirects_to(admin_url(Protection), 302)


def test_repositories_and_what_is_theirs_are_found_by_path(staff, make, repo, alice, carol):
    other = make.repo(carol, "zoo", by=carol)
    ForkFactory.create(upstream=other, owner=carol, created_by=carol)
    fork = ForkFactory.create(upstream=repo, owner=carol, created_by=carol)
    row = make.protection(repo, by=alice)
    make.protection(other, by=carol)
    for text in (repo.path, repo.path.upper(), "api", "ap", repo.owner.path):
        for model, wanted in ((Repo, repo), (Protection, row), (Fork, fork)):
            page = staff.get(f"{admin_url(model)}?q={text}").gives().html
            assert (
                row_url(wanted) in page
                and page.count('class="field-')
                and row_url(other) not in page
            )
    assert row_url(repo) not in staff.get(f"{admin_url(Repo)}?q=users/nobody/api").html
