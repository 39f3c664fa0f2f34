"""Row locks."""

from __future__ import annotations

from threading import Thread

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError

from apps.accounts.actions import delete_token, revoke_token
from apps.accounts.models import ApiToken
from apps.core.errors import NotFound
from apps.core.locks import lock
from apps.teams.actions import create_team, remove_member, update_team
from apps.teams.models import Team
from tests.principals import principal_of, team_access_of


def test_a_lock_reads_the_row_anew_and_keeps_its_parents(make, acme, django_assert_num_queries):
    member = acme.members.select_related("user").first()
    acme.members.filter(pk=member.pk).update(role="viewer")
    with transaction.atomic(), django_assert_num_queries(1):
        lock(member)
    with django_assert_num_queries(0):
        assert member.role == "viewer"
        assert member.user.username
        assert member.team == acme


def test_a_row_that_has_gone_meanwhile_is_not_found(make, acme, alice, bob):
    token = alice.tokens.get()
    again = ApiToken.objects.select_related("user").get(pk=token.pk)
    delete_token(principal=principal_of(alice), token=token)
    with pytest.raises(NotFound) as refused:
        delete_token(principal=principal_of(alice), token=again)
    assert refused.value.code == "not_found"
    with pytest.raises(NotFound):
        revoke_token(principal=principal_of(alice), token=again)


def test_a_membership_that_ended_meanwhile_is_not_found(make, acme, alice, bob):
    member, again = (acme.members.get(user=bob) for _ in range(2))
    remove_member(access=team_access_of(bob, acme), member=member)
    with pytest.raises(NotFound):
        remove_member(access=team_access_of(alice, acme), member=again)


def test_a_lock_shows_what_another_has_changed(make, acme, alice):
    mine, theirs = (Team.objects.get(pk=acme.pk) for _ in range(2))
    update_team(access=team_access_of(alice, theirs), name="Theirs", slug="theirs")
    with transaction.atomic():
        lock(mine)
    assert mine.slug == "theirs"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own")
@pytest.mark.django_db(transaction=True)
def test_rows_that_point_to_a_locked_one_are_written_meanwhile(make, alice):
    """Else the other writer would wait at its commit while it holds the event lock."""

    def found_a_team() -> None:
        create_team(principal=principal_of(alice), name="Meanwhile", slug="meanwhile")
        connection.close()

    writer = Thread(target=found_a_team)
    with transaction.atomic():
        lock(alice)
        writer.start()
        writer.join(timeout=60)
        assert Team.objects.filter(slug="meanwhile").exists()
    writer.join(timeout=60)


@pytest.mark.django_db(transaction=True)
def test_a_lock_outside_a_transaction_is_refused_for_it_would_hold_nothing(alice):
    with pytest.raises(TransactionManagementError):
        lock(alice)
