"""Sessions: `/users/self/sessions`, `/users/{username}/sessions`, and when they end."""

from __future__ import annotations

import datetime as dt

import pytest
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone

from apps.accounts.actions import (
    change_password,
    deactivate_user,
    delete_user,
    end_sessions,
    reactivate_user,
)
from apps.accounts.jobs import delete_expired_sessions
from apps.accounts.models import BrowserSession, User
from apps.accounts.sessions import SEEN
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0"
OWN = "/users/self/sessions"


def browser(user: User) -> PageClient:
    """A browser in which the person has opened a page."""
    client = PageClient(user)
    client.get("/settings", **{"User-Agent": FIREFOX}).gives()
    return client


def test_a_session_tells_its_browser_its_address_and_its_times(api, bob):
    client = browser(bob)
    [session] = api(bob).get(OWN).gives()["results"]
    assert (session["device"], session["user_agent"]) == ("Firefox on Linux", FIREFOX)
    assert session["address"] == "127.0.0.1"
    assert session["created_at"] <= session["last_seen_at"] < session["expires_at"]
    key = client.client.session.session_key
    assert key and key not in str(session)


@pytest.mark.parametrize(
    ("agent", "device"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1", "Safari on iOS"),
        ("Mozilla/5.0 (Linux; Android 10; K) Chrome/130.0 Safari/537.36", "Chrome on Android"),
        ("curl/8.5", "Unknown browser"),
        ("", "Unknown browser"),
    ],
)
def test_a_device_has_the_name_of_the_browser_and_the_system(agent, device):
    assert BrowserSession(user_agent=agent).device == device


def test_only_the_person_and_staff_see_and_end_sessions(api, alice, bob, sam, events):
    browser(bob)
    [session] = api(bob).get(OWN).gives()["results"]
    with events():
        api().get(OWN).fails(401, "not_authenticated")
        api(alice).get("/users/bob/sessions").fails(403, "staff_required")
        api(alice).delete("/users/bob/sessions").fails(403, "staff_required")
        api(alice).delete(f"/users/bob/sessions/{session['uuid']}").fails(403, "staff_required")
        api(alice).delete(f"{OWN}/{session['uuid']}").fails(404, "not_found")
        api(sam).get("/users/nobody/sessions").fails(404, "not_found")
    assert api(sam).get("/users/bob/sessions").gives()["results"] == [session]


def test_one_session_ends_and_the_others_go_on(api, bob, events):
    ended, other = browser(bob), browser(bob)
    row = BrowserSession.objects.get(session=ended.client.session.session_key)
    with events("user-updated") as recorded:
        api(bob).delete(f"{OWN}/{row.uuid}").gives(204)
    assert recorded[0].data["changed"] == ["sessions"]
    with events():
        api(bob).delete(f"{OWN}/{row.uuid}").fails(404, "not_found")
    assert (ended.is_signed_in, other.is_signed_in) == (False, True)


def test_staff_ends_all_sessions_also_those_without_a_row(api, bob, sam, alice, events):
    known, unknown, others = browser(bob), PageClient(bob), browser(alice)
    with events("user-updated"):
        api(sam).delete("/users/bob/sessions").gives(204)
    assert not known.is_signed_in and not unknown.is_signed_in and others.is_signed_in
    assert api(bob).get(OWN).gives()["results"] == []
    assert Session.objects.count() == BrowserSession.objects.count() == 1


def test_a_visit_is_stored_once_an_hour(bob, client):
    client = browser(bob)
    before = timezone.now() - dt.timedelta(hours=1)
    User.objects.update(last_seen_at=before)
    BrowserSession.objects.update(last_seen_at=before)
    browser_session = client.client.session
    client.get("/settings")
    assert BrowserSession.objects.get().last_seen_at == before
    browser_session[SEEN] -= 3600
    browser_session.save()
    client.get("/settings")
    assert BrowserSession.objects.get().last_seen_at > before
    bob.refresh_from_db()
    assert bob.last_seen_at > before


def test_a_token_is_a_visit_once_an_hour(api, bob):
    api(bob).get("/users/self").gives()
    bob.refresh_from_db()
    seen = bob.last_seen_at
    assert seen is not None
    bob.tokens.update(last_used_at=None)
    api(bob).get("/users/self").gives()
    bob.refresh_from_db()
    assert bob.last_seen_at == seen


def test_a_new_password_leaves_only_the_browser_that_changed_it(api, bob):
    bob.set_password(PASSWORD)
    bob.save()
    here = browser(bob)
    browser(bob)
    new = "correct horse staple"
    changed = here.post("/settings/password", current=PASSWORD, password=new, again=new)
    changed.redirects_to("/settings/password")
    here.get("/settings/password").gives()
    [row] = BrowserSession.objects.all()
    assert row.session_id == here.client.session.session_key


@pytest.mark.parametrize(
    "end",
    [
        lambda sam, bob: deactivate_user(principal=sam, user=bob),
        lambda sam, bob: delete_user(principal=sam, user=bob, confirm="bob"),
        lambda sam, bob: change_password(principal=sam, user=bob, password="x7 horse staple"),
    ],
    ids=["deactivated", "deleted", "password"],
)
def test_no_session_is_left_in_the_list(bob, sam, end):
    browser(bob)
    end(principal_of(sam), bob)
    assert not BrowserSession.objects.exists()
    assert not Session.objects.exists()


def test_a_sign_in_that_was_overtaken_begins_no_session(bob, sam, monkeypatch):
    """The password was right when the account was still active."""
    bob.set_password(PASSWORD)
    bob.save()
    closed = False

    def authenticate(*_, **__):
        nonlocal closed
        user = User.objects.get(pk=bob.pk)
        if not closed:
            closed = True
            deactivate_user(principal=principal_of(sam), user=bob)
        return user

    monkeypatch.setattr("apps.web.signin.authenticate", authenticate)
    client = PageClient()
    client.sign_in("bob").gives(422)
    reactivate_user(principal=principal_of(sam), user=bob)
    assert not client.is_signed_in
    assert not BrowserSession.objects.exists()


def test_expired_and_left_over_rows_are_deleted(bob, alice):
    for user in (bob, alice):
        browser(user)
    keys = dict(BrowserSession.objects.values_list("user__username", "session_id"))
    Session.objects.filter(pk=keys["bob"]).update(expire_date=timezone.now())
    # as the previous version does, which does not know the table
    Session.objects.filter(pk=keys["alice"])._raw_delete("default")
    delete_expired_sessions()
    assert not BrowserSession.objects.exists()


def test_signing_out_deletes_the_row(bob):
    client = browser(bob)
    client.post("/signout").redirects_to("/")
    assert not BrowserSession.objects.exists()


def test_the_ended_session_is_not_made_again_by_a_request_under_way(bob, sam):
    client = browser(bob)
    key = client.client.cookies[settings.SESSION_COOKIE_NAME].value
    end_sessions(principal=principal_of(sam), user=bob)
    assert not client.is_signed_in
    session = Session.objects.filter(pk=key).first()
    assert session is None or SESSION_KEY not in session.get_decoded()
