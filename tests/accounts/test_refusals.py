"""Refusals of the actions of accounts, site and teams, for every caller."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import actions
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.proofs import address_proof
from apps.core.access import Permission
from apps.core.errors import ApiError
from apps.site import actions as site
from apps.teams import actions as teams
from apps.teams.models import Role
from tests.factories import TeamFactory
from tests.principals import principal_of, team_access_of

SOON = timezone.now() + dt.timedelta(days=1)
LIMIT: dict[str, Any] = {"scope": "git", "max_requests": 9, "window_seconds": 60}
OF_STAFF: dict[str, tuple[Any, dict[str, Any]]] = {
    "create a user": (actions.create_user, {"username": "zoe"}),
    "close an account": (actions.deactivate_user, {"user": "bob"}),
    "open an account": (actions.reactivate_user, {"user": "bob"}),
    "say who is staff": (actions.update_user, {"user": "bob", "is_staff": True}),
    "invite": (actions.create_invite, {"expires_at": SOON}),
    "make a token": (actions.create_token, {"owner": "bob", "name": "x"}),
    "change the site": (site.update_site_settings, {}),
    "limit": (site.create_rate_limit, LIMIT | {"scope": "api"}),
    "change a limit": (site.update_rate_limit, {"rate_limit": "git"}),
    "delete a limit": (site.delete_rate_limit, {"rate_limit": "git"}),
}
"""Each action with its arguments, in which a text stands for bob or for the limit of git."""


def code(act: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ApiError) as refused:
        act(*arguments, **options)
    return refused.value.code


@pytest.mark.parametrize(("act", "named"), OF_STAFF.values(), ids=OF_STAFF)
def test_only_staff_with_its_full_power_does_what_is_the_staffs(
    alice, bob, sam, events, act, named
):
    rows = {"bob": bob, "git": site.create_rate_limit(principal=None, **LIMIT)}
    options = {name: rows.get(value, value) for name, value in named.items()}
    lowered = (Principal(sam, permission=Permission.WRITE), Principal(sam, repo_ids=frozenset()))
    with events():
        assert code(act, principal=principal_of(alice), **options) == "staff_required"
        for by in lowered:
            assert code(act, principal=by, **options) == "token_scope"
        assert code(act, principal=ANONYMOUS, **options) in {"staff_required", "not_authenticated"}
    act(principal=principal_of(sam), **options)


def test_a_credential_with_less_than_all_rights_changes_nothing_of_its_persons(alice, acme, events):
    token, writing = alice.tokens.get(), Permission.WRITE
    lowered = (Principal(alice, permission=writing), Principal(alice, repo_ids=frozenset()))
    with events():
        for act, options in (
            (actions.update_user, {"user": alice, "display_name": "Al"}),
            (actions.confirm_email, {"proof": address_proof(alice, "al@example.org")}),
            (actions.change_password, {"user": alice, "password": "first horse battery"}),
            (actions.create_token, {"owner": alice, "name": "x"}),
            (actions.revoke_token, {"token": token}),
            (actions.delete_token, {"token": token}),
            (teams.create_team, {"name": "x", "slug": "x"}),
        ):
            for by in lowered:
                assert code(act, principal=by, **options) == "token_scope"
            assert code(act, principal=ANONYMOUS, **options) == "not_authenticated"


def test_a_role_that_was_lost_meanwhile_counts_for_nothing(acme, alice, bob, carol):
    acme.members.filter(user=bob).update(role=Role.OWNER)
    former = team_access_of(bob, acme)
    acme.members.filter(user=bob).update(role=Role.ADMIN)
    assert code(teams.add_member, access=former, user=carol, role=Role.OWNER) == "role_required"
    acme.members.filter(user=bob).delete()
    assert code(teams.add_member, access=former, user=carol, role=Role.VIEWER) == "forbidden"


def test_access_to_one_team_reaches_no_member_of_another(acme, alice, bob):
    other = TeamFactory.create(slug="other", owner=bob)
    member = other.members.get(user=bob)
    with pytest.raises(ValueError, match="is not in"):
        teams.remove_member(access=team_access_of(alice, acme), member=member)
    assert other.members.get() == member
