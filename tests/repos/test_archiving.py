"""Archiving a repository and choosing its default branch: what staff does in the admin."""

import pytest

from apps.core.errors import ApiError
from apps.repos import actions
from apps.repos.models import Repo
from tests.gitclient import Clone
from tests.principals import access_of
from tests.races import Outcome, at_once


def refused(act, **given):
    with pytest.raises(ApiError) as caught:
        act(**given)
    return caught.value.status, caught.value.code


@pytest.fixture
def pushed(team_repo, alice, tmp_path):
    """A repository with the branches main and next."""
    clone = Clone(tmp_path / "clone", team_repo, alice)
    clone.commit("main", {"README": "A place.\n"})
    clone.commit("next", {"arch": "open\n"}, onto="main")
    clone.push("main", "next")
    team_repo.refresh_from_db()
    return team_repo


def test_only_staff_archives_and_only_once(team_repo, alice, sam, api, events):
    archive = actions.set_archived
    with events():
        assert refused(archive, by=access_of(alice, team_repo), archived=True) == (
            403,
            "staff_required",
        )
        archive(by=access_of(sam, team_repo), archived=False)
    with events("repo-updated") as recorded:
        archive(by=access_of(sam, team_repo), archived=True)
        archive(by=access_of(sam, team_repo), archived=True)
    assert recorded[0].data == {"changed": ["is_archived"]}
    path = "/teams/acme/repos/api/threads"
    new = {"title": "x", "body": "", "kind": "issue"}
    api(alice).post(path, **new).fails(409, "repo_archived")
    assert api(alice).get("/teams/acme/repos/api").gives()["is_archived"] is True
    with events("repo-updated"):
        archive(by=access_of(sam, team_repo), archived=False)
    api(alice).post(path, **new).gives(201)


def test_the_default_branch_has_to_exist_and_git_follows(pushed, sam, events):
    choose = actions.set_default_branch
    with events():
        for branch in ("nowhere", "", "../main", "refs/heads/next"):
            assert refused(choose, by=access_of(sam, pushed), branch=branch)[0] == 422
        choose(by=access_of(sam, pushed), branch="main")
    assert pushed.git.head_branch() == "main"
    with events("repo-updated") as recorded:
        choose(by=access_of(sam, pushed), branch="next")
    assert recorded[0].data == {"changed": ["default_branch"]}
    assert (pushed.git.head_branch(), Repo.objects.get().default_branch) == ("next", "next")


def test_an_archived_repository_keeps_its_default_branch(pushed, sam, events):
    actions.set_archived(by=access_of(sam, pushed), archived=True)
    with events():
        given = {"by": access_of(sam, pushed), "branch": "next"}
        assert refused(actions.set_default_branch, **given) == (409, "repo_archived")
    assert pushed.git.head_branch() == "main"


@pytest.mark.django_db(transaction=True)
def test_two_who_archive_at_once_make_one_event(team_repo, sam, events):
    def archive():
        repo = Repo.objects.get(pk=team_repo.pk)
        return Outcome(lambda: actions.set_archived(by=access_of(sam, repo), archived=True))

    with events("repo-updated"):
        assert at_once(archive, archive) == {(200, None): 2}
