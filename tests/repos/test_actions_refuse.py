"""Actions on repositories check level, credential and current state themselves.

tests/test_permissions_of_actions.py tries them as each person, in archived repositories and in
inactive teams.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

import pytest

from apps.accounts.principal import ANONYMOUS, Principal
from apps.core.access import Permission
from apps.core.errors import ApiError
from apps.repos import actions
from apps.repos.access import access_to, access_to_owner
from apps.repos.models import Repo

pytestmark = pytest.mark.once

WITHOUT_CALLER = {"complete_fork", "fail_fork", "import_repo"}
"""For the worker, after the creator of a fork was allowed to request it, and for operators."""
IN_REPO = ["update_repo", "create_protection", "update_protection", "delete_protection"]
IN_REPO += ["add_approver", "remove_approver"]
CALLS = ["create_repo", "create_fork", "delete_repo", *IN_REPO]


@pytest.fixture
def call(make, team_repo, alice, bob) -> Callable[[str, Principal], object]:
    """`call("update_repo", principal)`: alice owns all rows, and bob is an approver."""
    protection = make.protection(team_repo, by=alice, approver=bob)
    arguments: dict[str, dict[str, Any]] = {
        "create_repo": {"name": "New", "slug": "new"},
        "update_repo": {"name": "B", "slug": "b"},
        "delete_repo": {"confirm": "acme/api"},
        "create_protection": {"branch": "x"},
        "update_protection": {"protection": protection, "required_approvals": 2},
        "delete_protection": {"protection": protection},
        "add_approver": {"protection": protection, "user": alice},
        "remove_approver": {"approver": protection.approvers.get()},
        "create_fork": {},
    }

    def act(name: str, who: Principal) -> object:
        space = access_to_owner(who, team_repo.owner)
        access = space if name == "create_repo" else access_to(who, team_repo)
        into = {"into": space} if name == "create_fork" else {}
        return getattr(actions, name)(access=access, **arguments[name], **into)

    return act


def refused(call: Any, *given: Any) -> tuple[int, str]:
    """The status and code of the refusal."""
    with pytest.raises(ApiError) as caught:
        call(*given)
    return caught.value.status, caught.value.code


def test_all_are_tried():
    assert {*CALLS, *WITHOUT_CALLER} == {
        name
        for name, function in vars(actions).items()
        if isfunction(function) and function.__module__ == actions.__name__ and name[0] != "_"
    }


@pytest.mark.parametrize("name", CALLS)
def test_a_lower_permission_is_refused(call, events, alice, name):
    """Every lower permission is refused, and the required one suffices."""
    needed = Permission.WRITE if name == "create_fork" else Permission.ADMIN
    with events():
        for permission in (one for one in Permission if not one.includes(needed)):
            who = Principal(alice, permission=permission)
            assert refused(call, name, who) == (403, "token_scope")
    call(name, Principal(alice, permission=needed))


@pytest.mark.parametrize("name", CALLS)
def test_nobody_and_the_deactivated_change_nothing(call, events, team_repo, alice, sam, name):
    team_repo.visibility = "public"
    team_repo.save()
    alice.is_active = sam.is_active = False
    with events():
        for who in (ANONYMOUS, Principal(alice), Principal(sam)):
            assert refused(call, name, who)[0] in {401, 403}


@pytest.mark.parametrize("name", IN_REPO)
def test_a_repository_that_is_archived_meanwhile_stays_as_it_is(call, events, alice, name):
    """After the caller has loaded it. It may be forked: the worker checks again."""
    Repo.objects.update(is_archived=True)
    with events():
        assert refused(call, name, Principal(alice)) == (409, "repo_archived")
