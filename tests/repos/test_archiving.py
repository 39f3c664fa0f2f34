"""Archiving a repository, and opening it again: `is_archived` of PUT …/repos/{repo_slug}."""

from __future__ import annotations

import pytest

from apps.repos.models import Repo
from tests.api import Api
from tests.races import at_once

ARCHIVE = {"is_archived": True}
OPEN = {"is_archived": False}
NEW = {"title": "x", "body": "", "kind": "issue"}


def put(client: Api, repo: Repo, **sent):
    """PUT the repository with its current names and these values."""
    return client.put(repo.api_path, **{"name": repo.name, "slug": repo.slug, **sent})


def test_a_repository_is_archived_once(api, team_repo, alice, events):
    with events():
        put(api(alice), team_repo, is_archived="true").fails(422, "validation_failed")
        put(api(alice), team_repo, **OPEN).gives()
    with events("repo-updated") as recorded:
        assert put(api(alice), team_repo, **ARCHIVE).gives()["is_archived"] is True
    before, after = {"is_archived": False}, {"is_archived": True}
    assert recorded[0].data == {"changed": ["is_archived"], "before": before, "after": after}


def test_an_archived_repository_takes_nothing_but_to_be_opened(api, repo, alice, events):
    put(api(alice), repo, **ARCHIVE).gives()
    with events():
        assert put(api(alice), repo, **ARCHIVE).gives()["is_archived"] is True
        put(api(alice), repo).fails(409, "repo_archived")
        put(api(alice), repo, name="Other").fails(409, "repo_archived")
        put(api(alice), repo, name=1).fails(422, "validation_failed")
        put(api(alice), repo, name="Other", **ARCHIVE).fails(409, "repo_archived")
        put(api(alice), repo, default_branch="next").fails(409, "repo_archived")
        api(alice).post(f"{repo.api_path}/threads", **NEW).fails(409, "repo_archived")
    assert api(alice).get(repo.api_path).gives()["name"] == repo.name
    with events("repo-updated"):
        put(api(alice), repo, **OPEN).gives()
    api(alice).post(f"{repo.api_path}/threads", **NEW).gives(201)


def test_it_is_changed_together_with_being_archived_or_opened(api, repo, alice, events):
    for word, name in ((ARCHIVE, "Last words"), (OPEN, "And more")):
        with events("repo-updated") as recorded:
            record = put(api(alice), repo, name=name, **word).gives()
        assert (record["name"], record["is_archived"]) == (name, word["is_archived"])
        assert recorded[0].data["changed"] == ["name", "is_archived"]


def test_a_repository_of_an_inactive_team_stays_as_it_is(api, team_repo, acme, alice, sam):
    acme.is_active = False
    acme.save()
    for person in (alice, sam):
        for word in (ARCHIVE, OPEN):
            put(api(person), team_repo, **word).fails(403, "team_inactive")


@pytest.mark.django_db(transaction=True)
def test_two_who_archive_at_once_make_one_event(api, team_repo, alice, sam, events):
    callers = [api(alice), api(sam)]
    with events("repo-updated"):
        answers = at_once(*(lambda c=caller: put(c, team_repo, **ARCHIVE) for caller in callers))
        assert answers == {(200, None): 2}


@pytest.mark.django_db(transaction=True)
def test_of_a_change_and_archiving_at_once_none_comes_after(api, team_repo, alice, sam):
    """Either the description is changed first, or the change is refused."""
    mine, other = api(alice), api(sam)
    answers = at_once(
        lambda: put(mine, team_repo, description="Mine"), lambda: put(other, team_repo, **ARCHIVE)
    )
    repo = Repo.objects.get()
    assert repo.is_archived
    if repo.description is None:
        assert answers == {(200, None): 1, (409, "repo_archived"): 1}
    else:
        assert answers == {(200, None): 2}
