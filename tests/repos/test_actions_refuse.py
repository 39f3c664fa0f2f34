"""Actions on repositories check access themselves, for every caller."""

from __future__ import annotations

from inspect import isfunction
from types import SimpleNamespace
from typing import Any

import pytest

from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Level
from apps.core.errors import ApiError
from apps.repos import actions
from apps.repos.access import access_to, access_to_owner
from apps.repos.models import Repo
from apps.teams.models import Team

pytestmark = pytest.mark.once

OF_WORKER = {"complete_fork", "fail_fork"}
"""Complete a fork like the worker, after its creator was allowed to request it."""

CALLS = {
    "create_repo": (
        Level.WRITE,
        lambda who, have: actions.create_repo(
            access=access_to_owner(who, have.repo.owner), name="New", slug="new"
        ),
    ),
    "update_repo": (
        Level.ADMIN,
        lambda who, have: actions.update_repo(access=access_to(who, have.repo), name="B", slug="b"),
    ),
    "create_protection": (
        Level.ADMIN,
        lambda who, have: actions.create_protection(access=access_to(who, have.repo), branch="x"),
    ),
    "update_protection": (
        Level.ADMIN,
        lambda who, have: actions.update_protection(
            access=access_to(who, have.repo), protection=have.protection, required_approvals=2
        ),
    ),
    "delete_protection": (
        Level.ADMIN,
        lambda who, have: actions.delete_protection(
            access=access_to(who, have.repo), protection=have.protection
        ),
    ),
    "add_approver": (
        Level.ADMIN,
        lambda who, have: actions.add_approver(
            access=access_to(who, have.repo), protection=have.protection, user=have.alice
        ),
    ),
    "remove_approver": (
        Level.ADMIN,
        lambda who, have: actions.remove_approver(
            access=access_to(who, have.repo), approver=have.protection.approvers.get()
        ),
    ),
    "create_fork": (
        Level.WRITE,
        lambda who, have: actions.create_fork(
            access=access_to(who, have.repo), into=access_to_owner(who, have.repo.owner)
        ),
    ),
}


@pytest.fixture
def have(make, team_repo, alice, bob):
    """The rows for the actions: alice owns all of them, and bob is an approver."""
    protection = make.protection(team_repo, by=alice, approver=bob)
    team_repo.refs.create(full_name="refs/heads/next", sha="1" * 40)
    return SimpleNamespace(repo=team_repo, protection=protection, alice=alice)


def refused(call: Any, *given: Any) -> tuple[int, str]:
    """The status and code of the refusal."""
    with pytest.raises(ApiError) as caught:
        call(*given)
    return caught.value.status, caught.value.code


def test_all_are_tried():
    assert {*CALLS, *OF_WORKER} == {
        name
        for name, function in vars(actions).items()
        if isfunction(function) and function.__module__ == actions.__name__ and name[0] != "_"
    }


@pytest.mark.parametrize("name", CALLS)
def test_the_level_is_asked_for(have, events, alice, name):
    """Every lower level is refused, and the required level suffices."""
    needed, call = CALLS[name]
    with events():
        for ceiling in (level for level in Level if Level.NONE <= level < needed):
            status, code = refused(call, Principal(alice, ceiling=ceiling), have)
            assert (status, code in {"forbidden", "role_required"}) == (403, True)
    call(Principal(alice, ceiling=needed), have)


@pytest.mark.parametrize("name", CALLS)
def test_a_credential_that_only_reads_changes_nothing(have, events, sam, name):
    with events():
        reader = Principal(sam, read_only=True)
        assert refused(CALLS[name][1], reader, have) == (403, "role_required")


@pytest.mark.parametrize("name", CALLS)
def test_nobody_and_the_deactivated_change_nothing(have, events, alice, sam, name):
    Repo.objects.update(visibility="public")
    have.repo.refresh_from_db()
    alice.is_active = sam.is_active = False
    with events():
        for who in (ANONYMOUS, Principal(alice), Principal(sam)):
            assert refused(CALLS[name][1], who, have)[0] in {401, 403}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_inactive_team_is_closed_to_its_owner_and_to_staff(have, events, alice, sam, name):
    Team.objects.update(is_active=False)
    have.repo = Repo.objects.get(pk=have.repo.pk)
    with events():
        for person in (alice, sam):
            assert refused(CALLS[name][1], Principal(person), have) == (403, "team_inactive")


@pytest.mark.parametrize("name", sorted({*CALLS} - {"create_repo"}))
@pytest.mark.parametrize("stale", [False, True])
def test_an_archived_repository_stays_as_it_is(have, events, alice, name, stale):
    """Also if it was archived after the caller had loaded it."""
    Repo.objects.update(is_archived=True)
    if not stale:
        have.repo.refresh_from_db()
    elif name == "create_fork":
        return  # the worker checks again; an archived repository may be copied
    with events():
        assert refused(CALLS[name][1], Principal(alice), have) == (409, "repo_archived")
