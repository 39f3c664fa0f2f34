"""`is_satisfiable`: whether enough people could give the approvals that a protection asks for."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.repos.models import Protection, Repo, Visibility
from tests.factories import MemberFactory, UserFactory
from tests.repos import paths


@pytest.fixture
def says(api, alice):
    """`says(protection, 2)`: the value in list and record, which must be equal, perhaps for another
    number of approvals.
    """

    def ask(protection, required=None):
        if required is not None:
            require(protection, required)
        record = api(alice).get(paths.protection(protection)).gives()
        rows = api(alice).get(paths.protections(protection.repo)).gives()["results"]
        [row] = [row for row in rows if row["uuid"] == record["uuid"]]
        assert row == record
        return record["is_satisfiable"]

    return ask


@pytest.fixture
def guarded(make, alice):
    """`guarded(repo, 2, bob)`: a protection with this number of approvals and these approvers."""

    def protect(repo, required, *approvers):
        protection = make.protection(repo, by=alice, approver=approvers[0] if approvers else None)
        for approver in approvers[1:]:
            protection.approvers.create(user=approver, added_by=alice)
        Protection.objects.filter(pk=protection.pk).update(required_approvals=required)
        return protection

    return protect


def require(protection, number):
    Protection.objects.filter(pk=protection.pk).update(required_approvals=number)


def test_with_nobody_named_those_who_write_are_enough_but_for_the_author(
    says, guarded, team_repo, acme
):
    """alice and bob may write; each can approve the other's pulls."""
    protection = guarded(team_repo, 1)
    assert says(protection)
    assert not says(protection, 2)
    vera = MemberFactory.create(team=acme, user=UserFactory.create(username="vera"), viewer=True)
    assert says(protection)  # both can approve her pull from a fork
    vera.user.is_active = False
    vera.user.save()
    assert not says(protection)
    assert not says(protection, 3)
    assert says(protection, 0)


def test_nobody_approves_alone(says, guarded, make, alice):
    """A person's private repository."""
    own = make.repo(alice, "own", by=alice)
    protection = guarded(own, 1)
    assert not says(protection)
    UserFactory.create(username="stranger")
    assert not says(protection)
    Repo.objects.update(visibility=Visibility.INTERNAL)
    assert says(protection)  # alice can approve the stranger's pull
    assert not says(protection, 2)


def test_staff_writes_everywhere(says, guarded, make, alice):
    protection = guarded(make.repo(alice, "own", by=alice), 1)
    sam = UserFactory.create(username="sam", staff=True)
    assert says(protection)
    sam.is_active = False
    sam.save()
    assert not says(protection)


def test_who_is_of_the_team_and_staff_as_well_counts_once_and_in_nobodys_place(
    says, guarded, team_repo, alice, bob
):
    for person in (alice, bob):
        person.is_staff = True
        person.save()
    protection = guarded(team_repo, 2)
    assert not says(protection)
    UserFactory.create(username="sam", staff=True)
    assert says(protection)


def test_of_the_named_those_count_who_are_active_and_can_read(says, guarded, team_repo, acme, bob):
    protection = guarded(team_repo, 1, bob)
    assert says(protection)  # alice opens it
    assert not says(protection, 2)
    vera = UserFactory.create(username="vera")
    MemberFactory.create(team=acme, user=vera, viewer=True)
    protection.approvers.create(user=vera)
    assert says(protection)
    acme.members.filter(user=vera).delete()
    assert not says(protection)
    assert says(protection, 1)
    bob.is_active = False
    bob.save()
    assert not says(protection)


def test_where_all_who_can_read_are_named_one_of_them_is_the_author(
    says, guarded, team_repo, alice, bob
):
    protection = guarded(team_repo, 2, alice, bob)
    assert not says(protection)
    assert says(protection, 1)


def test_an_inactive_team_has_no_readers_from_outside(says, guarded, team_repo, acme, alice, bob):
    Repo.objects.update(visibility=Visibility.PUBLIC)
    protection = guarded(team_repo, 2, alice, bob)
    UserFactory.create(username="stranger")
    assert says(protection)
    acme.is_active = False
    acme.save()
    assert not says(protection)


def test_however_many_there_are_nobody_is_counted(api, guarded, make, team_repo, acme, alice):
    for number in range(30):
        user = UserFactory.create(username=f"m{number}")
        MemberFactory.create(team=acme, user=user)
    guarded(team_repo, 20)
    make.protection(team_repo, "named", by=alice, approver=alice)
    url = paths.protections(team_repo)

    with CaptureQueriesContext(connection) as queries:
        rows = api(alice).get(url).gives()["results"]
    assert all(row["is_satisfiable"] for row in rows)
    assert not [query for query in queries.captured_queries if "COUNT(" in query["sql"]]


@pytest.fixture
def told(api):
    """`told(person, pull)`: the values for each protection of a pull, by its pattern."""

    def ask(person, pull):
        url = f"{pull.repo.api_path}/pulls/{pull.number}/protection"
        rows = api(person).get(url).gives()["protections"]
        return {row["branch"]: row["is_satisfiable"] for row in rows}

    return ask


def test_of_a_pull_its_author_and_who_pushed_its_head_do_not_count(
    told, guarded, make, team_repo, acme, alice, bob
):
    carl = UserFactory.create(username="carl")
    MemberFactory.create(team=acme, user=carl)
    protection = guarded(team_repo, 2)
    pull = make.pull(team_repo, by=bob)
    assert told(bob, pull) == {"main": True}  # without pushers, alice and carl remain
    pull.head_sha, pull.head_pushed_by = "1" * 40, carl
    pull.save()
    assert told(bob, pull) == {"main": False}
    require(protection, 1)
    assert told(bob, pull) == {"main": True}
    pull.head_pushed_by = None  # the pusher may be anybody
    pull.save()
    assert told(bob, pull) == {"main": False}
    require(protection, 0)
    assert told(bob, pull) == {"main": True}


def test_of_a_pull_each_protection_is_looked_at_by_itself(
    told, guarded, make, team_repo, alice, bob
):
    guarded(team_repo, 1)
    named = make.protection(team_repo, "m*", by=alice, approver=bob)
    pull = make.pull(team_repo, by=bob)
    assert told(alice, pull) == {"main": True, "m*": False}
    named.approvers.create(user=alice)
    assert told(alice, pull) == {"main": True, "m*": True}
    pull.status = "closed"
    pull.save()
    assert told(alice, pull) == {"main": True, "m*": True}
