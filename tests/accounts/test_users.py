"""/users, and the actions that change a person."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db import connection

from apps.accounts import actions
from apps.accounts.models import User
from apps.accounts.proofs import address_proof, proven_address
from apps.core.errors import ApiError, NotFound
from tests.factories import ApiTokenFactory, UserFactory
from tests.principals import principal_of
from tests.races import Outcome, at_once

ADDRESS = "Carol@example.org"
STRONG = "a long way to the hall"


def refused(code: str, act, by: User | None = None, **arguments) -> str:
    """Call an action that is refused; check that it changed nothing, and return the error."""
    before = list(User.objects.order_by("pk").values())
    with pytest.raises(ApiError) as error:
        act(principal=by and principal_of(by), **arguments)
    assert (error.value.code, list(User.objects.order_by("pk").values())) == (code, before)
    return error.value.detail


def test_people_are_listed_by_username_and_found_by_a_part_of_a_name(api, alice, bob, sam):
    zoe = UserFactory.create(username="Zoe")
    actions.update_user(principal=principal_of(zoe), user=zoe, display_name="Änne Öl_X")

    def names(query: str) -> list[str]:
        return [user["username"] for user in api(alice).get(f"/users{query}").gives()["results"]]

    assert names("") == ["alice", "bob", "sam", "Zoe"]
    assert names("?search=O") == ["bob", "Zoe"]
    assert names("?search=%C3%96L_") == ["Zoe"]
    assert names("?search=%25") == names("?search=nobody") == []


def test_a_person_is_read_by_name_ignoring_case_and_by_self(api, alice, bob):
    api(alice).get("/users/nobody").fails(404, "not_found")
    record = api(alice).get("/users/BOB").gives()
    assert (record["username"], record["uuid"]) == ("bob", str(bob.uuid))
    assert record["web_url"] == "http://testserver/users/bob"
    assert api(bob).get("/users/self").gives()["uuid"] == record["uuid"]


def test_an_address_is_shown_to_its_person_and_to_staff_alone(api, alice, sam):
    carol = UserFactory.create(username="carol", email=ADDRESS)
    for path in ("/users", "/users/carol", "/events?scope=user:carol"):
        assert "example.org" not in api(alice).get(path).response.content.decode().lower()
    for viewer in (carol, sam):
        for path in ("/users", "/users/carol"):
            assert ADDRESS in api(viewer).get(path).response.content.decode()
    assert api(carol).get("/users/self").gives()["email"] == ADDRESS


def test_a_profile_is_changed_by_its_person_or_staff(alice, bob, sam, events):
    refused("staff_required", actions.update_user, bob, user=alice, display_name="Al")
    with events("user-updated", "user-updated") as recorded:
        actions.update_user(
            principal=principal_of(alice), user=alice, display_name="Alice Á", email=""
        )
        actions.update_user(
            principal=principal_of(sam), user=alice, email=ADDRESS, display_name="Alice Á"
        )
    assert [event.data for event in recorded] == [
        {
            "changed": ["display_name"],
            "before": {"display_name": ""},
            "after": {"display_name": "Alice Á"},
        },
        {"changed": ["email"], "before": {}, "after": {}},
    ]
    alice.refresh_from_db()
    assert (alice.display_name, alice.email) == ("Alice Á", ADDRESS)
    with events():
        actions.update_user(principal=principal_of(alice), user=alice, email=ADDRESS)


def test_everybody_says_how_they_are_called(api, alice, events):
    with events("user-updated") as recorded:
        changed = api(alice).put("/users/self", display_name="Alice Á (она)").gives()
        assert api(alice).put("/users/self", display_name="Alice Á (она)").gives() == changed
        assert api(alice).send("PUT", "/users/self", {}).gives() == changed
    assert api(alice).get("/users/self").gives() == changed
    assert (changed["username"], changed["display_name"]) == ("alice", "Alice Á (она)")
    before, after = {"display_name": ""}, {"display_name": "Alice Á (она)"}
    assert recorded[0].data == {"changed": ["display_name"], "before": before, "after": after}
    assert (recorded[0].actor, recorded[0].target["username"]) == (alice, "alice")
    assert api(alice).put("/users/self", display_name="").gives()["display_name"] == ""


NO_NAMES: list[Any] = [5, None, "x" * 101, "a\nb", "a\x00", "a\x1b[31m", "a\x85", "a\u202eb"]
NO_NAMES += ["\u2066a", "\u200f", "  ", "\u200b", "\u2060 \xad"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_is_text_that_can_be_seen_and_looks_like_itself(api, alice, events, name):
    with events():
        answer = api(alice).put("/users/self", display_name=name)
        assert answer.fails(422, "validation_failed").startswith("display_name: ")


def test_pages_and_admin_take_no_other_names(alice, sam):
    for by in (alice, sam):
        change = {"user": alice, "display_name": "a\u202eb"}
        refused("validation_failed", actions.update_user, by, **change)
    # A name that is older than the rule does not block other changes.
    User.objects.filter(pk=alice.pk).update(display_name="a\u202eb")
    alice.refresh_from_db()
    by = principal_of(alice)
    actions.update_user(principal=by, user=alice, display_name="a\u202eb", wants_mail=True)


def test_no_other_property_is_changed_over_the_api(api, alice, events):
    with events():
        for name, value in (
            ("email", ADDRESS),
            ("is_staff", True),
            ("username", "al"),
            ("password", "x"),
        ):
            for method in ("PUT", "PATCH"):
                api(alice).send(method, "/users/self", {name: value}).fails(422, "unknown_field")
        api(alice).put("/users/alice", display_name="x").fails(403, "staff_required")


def test_an_address_belongs_to_one_person_ignoring_case(alice, bob, sam):
    carol = UserFactory.create(username="carol", email=ADDRESS)
    for email in (ADDRESS.lower(), ADDRESS.upper()):
        bob.refresh_from_db()
        for act, by, arguments in (
            (actions.confirm_email, bob, {"proof": address_proof(bob, email)}),
            (actions.update_user, sam, {"user": bob, "email": email}),
            (actions.create_user, None, {"username": "dave", "email": email}),
        ):
            assert "Another account" in refused("validation_failed", act, by, **arguments)
    refused("validation_failed", actions.update_user, sam, user=bob, email="bob at home")
    actions.update_user(principal=principal_of(sam), user=carol, email="carol@example.com")
    actions.update_user(principal=principal_of(sam), user=bob, email=ADDRESS.lower())
    # also in another case
    refused("staff_required", actions.update_user, bob, user=bob, email=ADDRESS)
    actions.update_user(principal=principal_of(sam), user=bob, email=ADDRESS)
    assert User.objects.get(username="bob").email == ADDRESS
    assert {alice.email, UserFactory.create(username="erin").email} == {""}


def test_a_person_gets_another_address_by_proving_to_read_its_mail(alice, bob, events):
    refused("staff_required", actions.update_user, bob, user=bob, email="b@example.org")
    proof = address_proof(bob, ADDRESS)
    for by, wrong in ((bob, proof[:-1]), (bob, ""), (bob, "\0:é:1"), (alice, proof)):
        refused("not_found", actions.confirm_email, by, proof=wrong)
    with events("user-updated") as recorded:
        actions.confirm_email(principal=principal_of(bob), proof=proof)
    assert (recorded[0].data["changed"], recorded[0].actor) == (["email"], bob)
    assert User.objects.get(username="bob").email == ADDRESS
    refused("not_found", actions.confirm_email, bob, proof=proof)
    actions.update_user(principal=principal_of(bob), user=bob, email="")
    assert not User.objects.get(username="bob").email


def ended(person: User, proof: str) -> None:
    with pytest.raises(NotFound):
        proven_address(person, proof)


def test_a_proof_of_an_address_ends_in_a_day_and_with_another_password(bob, monkeypatch):
    proof = address_proof(bob, ADDRESS)
    assert proven_address(bob, proof) == ADDRESS
    bob.password = "another"
    ended(bob, proof)
    proof = address_proof(bob, ADDRESS)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 23 * 3600)
    assert proven_address(bob, proof) == ADDRESS
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    ended(bob, proof)


def test_staff_says_who_is_staff_and_keeps_the_last_one(alice, bob, sam, events):
    refused("staff_required", actions.update_user, alice, user=alice, is_staff=True)
    refused("invalid_transition", actions.update_user, sam, user=sam, is_staff=False)
    with events("user-updated", "user-updated"):
        actions.update_user(principal=principal_of(sam), user=bob, is_staff=True)
        actions.update_user(principal=principal_of(bob), user=sam, is_staff=False)
    for person, is_staff in ((bob, True), (sam, False)):
        person.refresh_from_db()
        assert (person.is_staff, person.is_superuser) == (is_staff, is_staff)


def test_a_deactivated_person_is_refused_at_the_next_call_and_reactivated_with_their_tokens(
    api, alice, bob, sam, events
):
    refused("staff_required", actions.deactivate_user, alice, user=alice)
    caller = api(alice)
    caller.get("/users/self").gives()
    with events("user-deactivated") as recorded:
        actions.deactivate_user(principal=principal_of(sam), user=alice)
        actions.deactivate_user(principal=principal_of(sam), user=alice)
    assert (recorded[0].target["username"], recorded[0].data, recorded[0].site) == ("alice", {}, 1)
    caller.get("/users/self").fails(401, "inactive_user")
    assert api(bob).get("/users/alice").gives()["is_active"] is False
    refused("staff_required", actions.reactivate_user, alice, user=alice)
    with events("user-updated") as recorded:
        actions.reactivate_user(principal=principal_of(sam), user=alice)
        actions.reactivate_user(principal=principal_of(sam), user=alice)
    assert recorded[0].data["after"] == {"is_active": True}
    caller.get("/users/self").gives()


def test_the_last_of_the_staff_stays(sam):
    idle = UserFactory.create(username="idle", staff=True)
    actions.deactivate_user(principal=principal_of(sam), user=idle)
    refused("invalid_transition", actions.deactivate_user, sam, user=sam)
    actions.reactivate_user(principal=principal_of(sam), user=idle)
    actions.deactivate_user(principal=principal_of(idle), user=sam)


def test_nobody_makes_a_token_for_a_deactivated_person(api, alice, sam):
    actions.deactivate_user(principal=principal_of(sam), user=alice)
    body = {"name": "laptop", "username": "alice"}
    assert "deactivated" in api(sam).post("/api-tokens", **body).fails(422, "validation_failed")


def test_a_password_is_changed_without_a_trace_of_it(bob, sam, events):
    alice = UserFactory.create(username="alice", clear_password="old and known well")
    ApiTokenFactory.create(user=alice)
    refused("staff_required", actions.change_password, bob, user=alice, password=STRONG)
    for weak in ("", "short", "password", "1234567890", "alice1234"):
        assert refused(
            "validation_failed", actions.change_password, alice, user=alice, password=weak
        )
    with events("user-updated") as recorded:
        actions.change_password(principal=principal_of(alice), user=alice, password=STRONG)
    assert recorded[0].data == {"changed": ["password"], "before": {}, "after": {}}
    alice.refresh_from_db()
    assert alice.check_password(STRONG)
    assert alice.tokens.get().is_usable


def test_of_two_who_change_one_password_at_once_the_first_does(db):
    """Both have shown the old password, or a link, before one of them stores a new one."""
    UserFactory.create(username="alice", clear_password="old and known well")
    first, second = User.objects.get(), User.objects.get()
    actions.change_password(principal=principal_of(first), user=first, password=STRONG)
    change = {"user": second, "password": STRONG + "!"}
    assert "meantime" in refused("invalid_transition", actions.change_password, second, **change)
    first.refresh_from_db()
    assert first.check_password(STRONG)


def test_the_keys_follow_the_names_whoever_writes_them(db):
    carol = UserFactory.create(username="Carol", email=ADDRESS)
    carol.display_name = "İ" * 100
    carol.save(update_fields=["display_name"])
    carol.refresh_from_db()
    assert carol.display_name_key == carol.display_name.lower()
    assert (carol.username_key, carol.email_key) == ("carol", ADDRESS.lower())
    carol.username = "two words"
    with pytest.raises(ValidationError):
        carol.full_clean()


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_for_the_database_while_a_password_is_hashed(monkeypatch):
    waiting = []

    def hash_slowly(password):
        waiting.append(connection.in_atomic_block)
        return make_password(password)

    monkeypatch.setattr(actions, "make_password", hash_slowly)
    alice = actions.create_user(principal=None, username="alice", password=STRONG)
    actions.change_password(principal=principal_of(alice), user=alice, password=STRONG + "!")
    assert waiting == [False, False]


@pytest.mark.django_db(transaction=True)
def test_two_of_the_staff_who_leave_together_leave_one(sam):
    sue = UserFactory.create(username="sue", staff=True)
    callers = [principal_of(User.objects.get(pk=one.pk)) for one in (sam, sue)]
    answers = at_once(
        lambda: Outcome(lambda: actions.deactivate_user(principal=callers[0], user=sue)),
        lambda: Outcome(lambda: actions.deactivate_user(principal=callers[1], user=sam)),
    )
    assert answers == {(200, None): 1, (409, "invalid_transition"): 1}
    assert User.objects.filter(is_staff=True, is_active=True).count() == 1
