"""Sign-ins and refused sign-ins in the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.events.audit import AuditEntry
from apps.events.models import Event
from tests.factories import UserFactory
from tests.web.page_client import PASSWORD, PageClient

pytestmark = pytest.mark.once


@pytest.fixture
def ada(db: None) -> User:
    ada: User = UserFactory.create(username="Ada", clear_password=PASSWORD)
    return ada


def entries() -> list[tuple[Any, ...]]:
    rows = AuditEntry.objects.order_by("id")
    return [(row.kind, row.actor_id, row.person_id, row.target, row.data) for row in rows]


def test_signing_in_and_out_leaves_an_entry_each_and_no_event(ada: User) -> None:
    person = PageClient()
    person.client.defaults |= {"HTTP_USER_AGENT": "Browser\t1\x7f", "REMOTE_ADDR": "192.0.2.7"}
    person.sign_in("ada").redirects_to("/")
    person.post("/signout").redirects_to("/")
    about = {"kind": "user", "username": "Ada"}
    assert entries() == [
        ("signed-in", ada.pk, ada.pk, about, {}),
        ("signed-out", ada.pk, ada.pk, about, {}),
    ]
    origins = {*AuditEntry.objects.values_list("address", "program", "token_name")}
    assert origins == {("192.0.2.7", "Browser 1", "")}
    assert not Event.objects.exists()


def test_signing_out_without_a_session_leaves_none(db: None) -> None:
    PageClient().post("/signout").redirects_to("/")
    assert entries() == []


def test_a_refused_sign_in_names_the_account_but_not_another_text(ada: User) -> None:
    gone = UserFactory.create(username="gone", clear_password=PASSWORD, is_active=False)
    person = PageClient()
    for name in ("ADA", PASSWORD, "gone"):
        person.sign_in(name, "wrong").gives(422)
    refused = "sign-in-refused"
    of_ada, of_gone = ({"kind": "user", "username": one.username} for one in (ada, gone))
    assert entries() == [
        (refused, None, ada.pk, of_ada, {"reason": "wrong_password"}),
        (refused, None, None, {"kind": "user"}, {"reason": "unknown_account"}),
        (refused, None, gone.pk, of_gone, {"reason": "inactive_account"}),
    ]


def test_another_person_in_the_same_browser_signs_the_first_out(ada: User) -> None:
    UserFactory.create(username="bea", clear_password=PASSWORD)
    person = PageClient()
    for name in ("Ada", "bea"):
        person.sign_in(name).redirects_to("/")
    rows = AuditEntry.objects.order_by("id").values_list("kind", "target__username")
    assert [*rows] == [("signed-in", "Ada"), ("signed-out", "Ada"), ("signed-in", "bea")]


def test_nothing_is_recorded_without_the_audit_log(ada: User, settings: Any) -> None:
    settings.AUDIT_DAYS = 0
    person = PageClient()
    person.sign_in("Ada", "wrong").gives(422)
    person.sign_in("Ada").redirects_to("/")
    person.post("/settings/sessions/end").redirects_to("/signin", 303)
    assert entries() == []
    assert [*Event.objects.values_list("kind", flat=True)] == ["user-updated"]


def test_the_address_is_that_behind_trusted_proxies(ada: User, settings: Any) -> None:
    settings.TRUSTED_PROXIES = 1
    person = PageClient()
    person.client.defaults |= {"HTTP_X_FORWARDED_FOR": "spoofed, 2001:db8:1:2:3::4"}
    person.sign_in("Ada").redirects_to("/")
    assert AuditEntry.objects.get().address == "2001:db8:1:2::/64"
