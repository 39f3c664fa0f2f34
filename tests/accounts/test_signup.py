"""The action `sign_up`, which the page for signing up calls."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.proofs import address_proof
from apps.core.errors import ApiError
from apps.events.models import Event
from tests.accounts.test_invites import PASSWORD, invite, site
from tests.factories import UserFactory
from tests.races import Outcome, at_once

__all__ = ["site"]
EVE = {"username": "Eve", "email": "eve@Example.org", "password": PASSWORD}


def join(invite: Invite | None = None, **fields: Any) -> User:
    arguments: dict[str, Any] = {**EVE, **fields}
    return actions.sign_up(principal=ANONYMOUS, invite=invite, **arguments)


def confirm(user: User, email: str) -> None:
    """Confirm the address, as the person who signed up."""
    actions.confirm_email(principal=Principal(user), proof=address_proof(user, email))


def refused(code: str, *arguments: Any, **fields: Any) -> str:
    """The error of a refused sign-up. It creates no account, no event, and uses no invite."""
    before = User.objects.count(), Event.objects.count()
    with pytest.raises(ApiError) as error:
        join(*arguments, **fields)
    assert error.value.code == code, error.value
    assert (User.objects.count(), Event.objects.count()) == before
    return error.value.detail


def test_nobody_comes_while_signing_up_is_closed(sam, site):
    site(signups_enabled=False, signups_require_invite=False)
    invited = invite(sam)
    refused("forbidden")
    refused("forbidden", invited)
    site(signups_enabled=True)
    assert join(invited).is_active


def test_nobody_comes_without_an_invite_where_one_is_needed(db, site):
    assert "invite" in refused("forbidden")
    site(signups_require_invite=False)
    eve = join()
    assert (eve.username, eve.email, eve.is_staff) == ("Eve", "", False)
    eve.refresh_from_db()
    assert eve.check_password(PASSWORD) and not eve.email
    confirm(eve, EVE["email"])
    assert User.objects.get(username="Eve").email == "eve@example.org"


def test_an_invite_with_an_address_is_for_that_address_ignoring_case(sam):
    invited = invite(sam, email="Eve@example.org")
    detail = refused("validation_failed", invited, email="mallory@example.org")
    assert "eve" not in detail.lower()
    join(invited, email="EVE@example.ORG")


def test_whoever_joins_by_invite_is_reported_and_so_is_the_invite(sam, events):
    invited = invite(sam, email="eve@example.org")
    with events("user-joined", "invite-accepted") as recorded:
        eve = join(invited)
    assert {event.actor for event in recorded} == {eve}
    assert recorded[1].target == {"kind": "invite", "uuid": str(invited.uuid)}
    assert "example.org" not in str([event.__dict__ for event in recorded])
    invited.refresh_from_db()
    assert (invited.accepted_by, invited.accepted_at is None) == (eve, False)


def test_whoever_joins_without_an_invite_is_reported_once(db, site, events):
    site(signups_require_invite=False)
    with events("user-joined"):
        join()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("username", "two words"),
        ("username", "self"),
        ("email", ""),
        ("email", "eve at home"),
        ("password", "short"),
        ("password", "password"),
        ("password", "eve@example.org"),
    ],
)
def test_what_cannot_be_is_refused_and_uses_no_invite_up(sam, field, value):
    invited = invite(sam)
    assert refused("validation_failed", invited, **{field: value}).startswith(f"{field}: ")
    join(invited)


def test_a_name_that_is_taken_uses_no_invite_up_and_an_address_is_told_to_its_reader_alone(sam):
    UserFactory.create(username="eve", email="other@example.org")
    invited = invite(sam)
    refused("slug_taken", invited)
    invited.refresh_from_db()
    assert invited.accepted_at is None
    eva = join(invited, username="eva", email="OTHER@example.org")
    with pytest.raises(ApiError) as taken:
        confirm(eva, "OTHER@example.org")
    assert (taken.value.code, "Another account" in taken.value.detail) == (
        "validation_failed",
        True,
    )
    assert not User.objects.get(username="eva").email


@pytest.mark.django_db(transaction=True)
def test_of_two_who_accept_one_invite_one_joins(sam):
    seen = [invite(sam)]
    seen += Invite.objects.all()
    outcomes = at_once(
        *(
            lambda n=n: Outcome(lambda: join(seen[n], username=f"eve{n}", email=f"e{n}@x.org"))
            for n in range(2)
        )
    )
    assert outcomes == {(200, None): 1, (409, "invite_already_accepted"): 1}
    assert User.objects.filter(username__startswith="eve").count() == 1
    assert Event.objects.filter(kind="invite-accepted").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_who_confirm_one_address_one_gets_it(db, site):
    site(signups_require_invite=False)
    eves = [join(username=f"eve{n}") for n in range(2)]
    outcomes = at_once(
        *(lambda n=n: Outcome(lambda: confirm(eves[n], EVE["email"])) for n in range(2))
    )
    assert outcomes == {(200, None): 1, (422, "validation_failed"): 1}
    assert User.objects.filter(email="eve@example.org").count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_invite_is_accepted_or_deleted_and_not_both(api, sam):
    invited, staff = invite(sam), api(sam)
    outcomes = at_once(
        lambda: Outcome(lambda: join(invited)),
        lambda: staff.delete(f"/signup-invites/{invited.uuid}"),
    )
    assert outcomes in ({(200, None): 1, (204, None): 1}, {(404, "not_found"): 1, (204, None): 1})
