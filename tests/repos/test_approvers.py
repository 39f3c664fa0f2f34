"""…/protections/{protection_uuid}/approvers: list, add, remove."""

from __future__ import annotations

import uuid

import pytest

from apps.accounts.models import User
from apps.repos.models import Approver, Visibility
from tests.factories import MemberFactory, UserFactory
from tests.races import at_once
from tests.repos import paths


@pytest.fixture
def protection(make, repo, alice):
    return make.protection(repo, by=alice)


def test_an_approver_is_named_by_an_admin(api, protection, alice, sam, events):
    url = paths.approvers(protection)
    with events("approver-added") as recorded:
        added = api(alice).post(url, username="SAM").gives(201)
    assert {**added, "created_at": ""} == {
        "user_uuid": str(sam.uuid),
        "username": "sam",
        "display_name": "",
        "created_at": "",
        "added_by_username": "alice",
    }
    assert api(alice).get(url).gives()["results"] == [added]
    assert recorded[0].data == {"username": "sam", "branch": "main"}
    ident = {"uuid": str(sam.uuid), "protection_uuid": str(protection.uuid)}
    assert recorded[0].target == {"kind": "approver", **ident}
    assert api(alice).get(paths.protection(protection)).gives()["approver_count"] == 1


def test_who_cannot_read_cannot_approve(api, protection, alice, carol, events):
    url = paths.approvers(protection)
    with events():
        api(alice).post(url, username="nobody").fails(422, "user_not_found")
        api(alice).post(url, username="carol").fails(422, "approver_lacks_access")
        User.objects.filter(pk=carol.pk).update(is_active=False)
        assert "deactivated" in api(alice).post(url, username="carol").fails(
            422, "validation_failed"
        )
    User.objects.filter(pk=carol.pk).update(is_active=True)
    protection.repo.visibility = Visibility.INTERNAL
    protection.repo.save()
    api(alice).post(url, username="carol").gives(201)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "validation_failed"),
        ({"username": None}, "validation_failed"),
        ({"username": "alice", "role": "owner"}, "unknown_field"),
    ],
)
def test_a_body_that_names_nobody_is_refused(api, protection, alice, body, code):
    api(alice).post(paths.approvers(protection), **body).fails(422, code)


def test_a_viewer_may_approve_and_nobody_twice(api, make, team_repo, acme, alice):
    MemberFactory.create(team=acme, user=UserFactory.create(username="vera"), viewer=True)
    url = paths.approvers(make.protection(team_repo, by=alice))
    api(alice).post(url, username="vera").gives(201)
    api(alice).post(url, username="vera").fails(409, "approver_exists")


def test_an_approver_is_removed_by_uuid(api, protection, alice, sam, carol, events):
    url = paths.approvers(protection)
    api(alice).post(url, username="sam").gives(201)
    for ident in (carol.uuid, uuid.uuid4()):
        api(alice).delete(f"{url}/{ident}").fails(404, "not_found")
    with events("approver-removed") as recorded:
        api(alice).delete(f"{url}/{sam.uuid}").gives(204)
    assert recorded[0].data == {"username": "sam", "branch": "main"}
    api(alice).delete(f"{url}/{sam.uuid}").fails(404, "not_found")
    assert api(alice).get(url).gives()["results"] == []


def test_approvers_are_listed_oldest_first_by_page(api, protection, alice, sam):
    for name in ("sam", "alice"):
        api(alice).post(paths.approvers(protection), username=name).gives(201)
    page = api(alice).get(f"{paths.approvers(protection)}?per_page=1").gives()
    assert [row["username"] for row in page["results"]] == ["sam"]
    assert [row["username"] for row in api(alice).get(page["next"]).gives()["results"]] == ["alice"]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_name_the_same_approver_one_wins(api, make, team_repo, alice, bob, sam):
    url = paths.approvers(make.protection(team_repo, by=alice))
    callers = [api(alice), api(sam)]
    answers = at_once(*(lambda c=caller: c.post(url, username="bob") for caller in callers))
    assert answers == {(201, None): 1, (409, "approver_exists"): 1}
    assert Approver.objects.count() == 1
