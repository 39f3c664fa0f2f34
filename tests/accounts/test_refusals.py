"""Refusals of the actions of accounts, site and teams, for every caller."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import actions
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.proofs import address_proof
from apps.core.access import Level
from apps.core.errors import ApiError
from apps.site import actions as site
from apps.teams import actions as teams
from apps.teams.models import Role
from tests.factories import TeamFactory
from tests.principals import principal_of, team_access_of

SOON = dt.timedelta(days=1)
LIMIT: dict[str, Any] = {"scope": "git", "max_requests": 9, "window_seconds": 60}
OF_STAFF = {
    "create a user": lambda by, bob, limit: actions.create_user(principal=by, username="zoe"),
    "close an account": lambda by, bob, limit: actions.deactivate_user(principal=by, user=bob),
    "open an account": lambda by, bob, limit: actions.reactivate_user(principal=by, user=bob),
    "say who is staff": lambda by, bob, limit: actions.update_user(
        principal=by, user=bob, is_staff=True
    ),
    "invite": lambda by, bob, limit: actions.create_invite(
        principal=by, expires_at=timezone.now() + SOON
    ),
    "make a token": lambda by, bob, limit: actions.create_token(principal=by, owner=bob, name="x"),
    "change the site": lambda by, bob, limit: site.update_site_settings(principal=by),
    "limit": lambda by, bob, limit: site.create_rate_limit(
        principal=by, **LIMIT | {"scope": "api"}
    ),
    "change a limit": lambda by, bob, limit: site.update_rate_limit(principal=by, rate_limit=limit),
    "delete a limit": lambda by, bob, limit: site.delete_rate_limit(principal=by, rate_limit=limit),
}


def code(act: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ApiError) as refused:
        act(*arguments, **options)
    return refused.value.code


@pytest.mark.parametrize("act", OF_STAFF.values(), ids=OF_STAFF)
def test_only_staff_with_its_full_power_does_what_is_the_staffs(alice, bob, sam, events, act):
    limit = site.create_rate_limit(principal=None, **LIMIT)
    lowered = (Principal(sam, ceiling=Level.ADMIN), Principal(sam, read_only=True))
    with events():
        for by in (principal_of(alice), *lowered):
            assert code(act, by, bob, limit) in {"staff_required", "role_required"}
        assert code(act, ANONYMOUS, bob, limit) in {"staff_required", "not_authenticated"}
    act(principal_of(sam), bob, limit)


def test_a_credential_that_only_reads_changes_nothing_of_its_persons(alice, acme, events):
    by, token = Principal(alice, read_only=True), alice.tokens.get()
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
            assert code(act, principal=by, **options) == "role_required"
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
