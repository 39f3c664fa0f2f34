"""`/settings/invites`: who may invite, and the states of invites."""

import pytest

from apps.accounts.models import Invite
from tests.factories import UserFactory
from tests.web.test_signup import change_site_settings

PATH = "/settings/invites"
NEW = {"email": "", "expires_at": "7 days"}


def test_only_staff_invites_until_the_site_lets_everybody(visit, ada, sam, events):
    with events():
        assert "only staff" in visit(ada).get(PATH).gives(403).text
        visit(ada).post(PATH, **NEW).gives(403)
    assert PATH not in visit(ada).get("/settings").html
    assert PATH in visit(sam).get("/settings").html
    with events("invite-created"):
        visit(sam).post(PATH, **NEW).redirects_to(PATH)
    change_site_settings(signup_invite_creators="users")
    assert PATH in visit(ada).get("/settings").html
    with events("invite-created"):
        visit(ada).post(PATH, **NEW).redirects_to(PATH)


def test_an_invite_is_listed_with_its_link_for_its_creator_only(visit, sam):
    visit(sam).post(PATH, email="zoe@example.org", expires_at="30 days").redirects_to(PATH)
    link = f"http://127.0.0.1:8000/signup?invite={Invite.objects.get().uuid}"
    page = visit(sam).get(PATH)
    assert link in page.html and "zoe@example.org" in page.text
    assert page.header("Cache-Control") == "no-store"
    other = visit(UserFactory.create(username="sue", staff=True)).get(PATH)
    assert link not in other.html and "zoe@" not in other.html
    Invite.objects.update(expires_at=Invite.objects.get().created_at)
    assert link not in visit(sam).get(PATH).html and "expired" in visit(sam).get(PATH).text


@pytest.mark.parametrize("changed", [{"email": "nonsense"}, {"expires_at": "3 fortnights"}])
def test_an_invalid_field_is_named(visit, sam, events, changed):
    with events():
        page = visit(sam).post(PATH, **(NEW | changed)).gives(422)
    assert page.alert() and page.value("email") == changed.get("email", "")


def test_account_age_and_number_of_invites_are_limited_and_the_text_stays(visit, sam, events):
    change_site_settings(signup_invite_min_account_age="1d")
    page = visit(sam).post(PATH, **NEW | {"email": "zoe@example.org"}).gives(403)
    assert "1d old" in page.alert() and page.value("email") == "zoe@example.org"
    change_site_settings(signup_invite_min_account_age="0s", signup_invite_max_per_24h=1)
    visit(sam).post(PATH, **NEW).redirects_to(PATH)
    with events():
        page = visit(sam).post(PATH, **NEW).gives(429)
    assert "reached the limit" in page.alert() and int(page.header("Retry-After")) > 86000


def test_deleting_asks_first_and_ends_the_link(visit, sam, events):
    visit(sam).post(PATH, **NEW)
    invite = Invite.objects.get()
    path = f"{PATH}/{invite.uuid}/delete"
    other = visit(UserFactory.create(username="sue", staff=True))
    with events():
        other.post(path).gives(404)
        asks = visit(sam).get(path).gives()
        assert asks.h1 == "Delete this invite?" and asks.header("Cache-Control") == "no-store"
    with events("invite-deleted"):
        visit(sam).post(path).redirects_to(PATH)
    with events():
        visit(sam).post(path).gives(404)
    visit().get(f"/signup?invite={invite.uuid}").gives(404)


def test_the_link_has_the_address_of_the_server_whatever_was_asked_for(server):
    staff, body = server.api("sam"), b'{"expires_at": "1 day"}'
    for host in ("localhost:6666", "127.0.0.1"):
        made = staff.send("POST", "/signup-invites", body, Host=host).gives(201)
        assert made["invite_url"].startswith(f"{server.url}/signup?")
