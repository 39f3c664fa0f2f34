"""/teams/{team_slug}/members"""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from tests.factories import MemberFactory, UserFactory

HOME = "/teams/acme/members"


@pytest.fixture
def dan(acme, alice) -> User:
    """An admin of acme."""
    person: User = UserFactory.create(username="dan")
    MemberFactory.create(team=acme, user=person, admin=True, added_by=alice)
    return person


def test_members_are_listed_oldest_first_with_who_added_them(api, acme, alice, bob, dan):
    found = api(bob).get(HOME).gives()["results"]
    assert [row["username"] for row in found] == ["alice", "bob", "dan"]
    assert [row["role"] for row in found] == ["owner", "member", "admin"]
    assert {row["added_by_username"] for row in found} == {"alice"}
    assert api(bob).get(f"{HOME}/DAN").gives() == found[2]


def test_an_admin_adds_viewers_and_members_and_an_owner_everybody(api, alice, dan, carol, events):
    with events("member-added") as recorded:
        made = api(dan).post(HOME, username="CAROL", role="viewer").gives(201)
    assert (made["username"], made["role"], made["is_active"]) == ("carol", "viewer", True)
    assert made["added_by_username"] == "dan"
    assert recorded[0].data == {"username": "carol", "role": "viewer"}
    assert api(alice).put(f"{HOME}/carol", role="owner").gives()["role"] == "owner"


def test_nobody_is_added_twice(api, acme, alice, bob, events):
    with events():
        api(alice).post(HOME, username="bob", role="viewer").fails(409, "member_exists")
    assert api(alice).get(f"{HOME}/bob").gives()["role"] == "member"


def test_only_somebody_who_is_there_is_added(api, acme, alice, carol, events):
    carol.is_active = False
    carol.save()
    with events():
        api(alice).post(HOME, username="nobody", role="viewer").fails(422, "user_not_found")
        refused = api(alice).post(HOME, username="carol", role="viewer")
        assert "deactivated" in refused.fails(422, "validation_failed")
        refused = api(alice).post(HOME, username="bob", role="king")
        assert "owner, admin, member, viewer" in refused.fails(422, "validation_failed")


def test_a_role_is_changed_by_those_who_may_give_and_take_it(api, acme, alice, bob, dan, events):
    api(dan).put(f"{HOME}/dan", role="member").fails(403, "role_required")
    with events("member-updated") as recorded:
        assert api(dan).put(f"{HOME}/bob", role="viewer").gives()["role"] == "viewer"
    assert recorded[0].data == {"username": "bob", "role": "viewer", "before": "member"}
    with events():
        api(dan).put(f"{HOME}/bob", role="viewer").gives()


def test_a_new_role_counts_at_once(api, acme, alice, bob):
    api(bob).post("/teams/acme/repos", name="x", slug="x").gives(201)
    api(alice).put(f"{HOME}/bob", role="viewer").gives()
    api(bob).post("/teams/acme/repos", name="y", slug="y").fails(403, "role_required")


def test_a_team_keeps_an_owner(api, acme, alice, bob, sam, events):
    with events():
        for caller in (api(alice), api(sam)):
            caller.put(f"{HOME}/alice", role="admin").fails(409, "last_owner")
            caller.delete(f"{HOME}/alice").fails(409, "last_owner")
    api(alice).put(f"{HOME}/bob", role="owner").gives()
    api(alice).delete(f"{HOME}/alice").gives(204)
    api(alice).get(HOME).fails(403, "forbidden")


def test_a_removed_member_has_no_access_at_once(api, acme, alice, bob, events):
    with events("member-removed") as recorded:
        api(alice).delete(f"{HOME}/bob").gives(204)
    assert recorded[0].data == {"username": "bob", "role": "member"}
    api(bob).get(HOME).fails(403, "forbidden")
    api(alice).delete(f"{HOME}/bob").fails(404, "not_found")


def test_everybody_may_leave(api, acme, bob, dan, events):
    with events("member-removed"):
        api(bob).delete(f"{HOME}/BOB").gives(204)
    api(dan).delete(f"{HOME}/dan").gives(204)


def test_who_was_added_by_somebody_stays_when_that_one_leaves(api, acme, alice, bob, dan):
    api(dan).post(HOME, username="alice", role="viewer").fails(409, "member_exists")
    api(dan).delete(f"{HOME}/dan").gives(204)
    assert [row["username"] for row in api(bob).get(HOME).gives()["results"]] == ["alice", "bob"]


def test_an_inactive_member_is_shown_as_such(api, acme, alice, bob):
    bob.is_active = False
    bob.save()
    assert api(alice).get(f"{HOME}/bob").gives()["is_active"] is False
