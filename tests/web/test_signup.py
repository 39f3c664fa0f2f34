"""`/signup`, as the settings of the site say, and `/settings/invites`."""

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.site.limits import MAIL_LIMIT
from apps.site.models import SiteSettings
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD
from tests.web.test_limits import set_rate_limit
from tests.web.test_signin import link_in, mails

WANTED = {"username": "Zoe", "email": "zoe@example.org", "password": PASSWORD, "again": PASSWORD}


def change_site_settings(**fields):
    SiteSettings.load()
    SiteSettings.objects.update(**fields)


@pytest.fixture
def invite(sam):
    """An invite without an address: anybody with the link can use it."""
    later = timezone.now() + dt.timedelta(days=1)
    return actions.create_invite(principal=principal_of(sam), expires_at=later)


def test_without_an_invite_nobody_signs_up_unless_the_site_is_open(visit, events):
    with events():
        assert "need an invite" in visit().get("/signup").gives(403).text
        visit().post("/signup", **WANTED).gives(403)
    assert "You need an invite to sign up" in visit().get("/signin").text
    change_site_settings(signups_require_invite=False)
    assert 'href="/signup"' in visit().get("/signin").html
    person = visit()
    with events("user-joined"):
        person.post("/signup", **WANTED).redirects_to("/")
    assert person.is_signed_in and "Your last 90 days" in person.get("/").text


def test_where_sign_up_is_closed_an_invite_does_not_help(visit, invite, events):
    change_site_settings(signups_enabled=False, signups_require_invite=False)
    with events():
        for path in ("/signup", f"/signup?invite={invite.uuid}"):
            assert "at the moment" in visit().get(path).gives(403).text
        visit().post("/signup", **WANTED, invite=str(invite.uuid)).gives(403)
    assert "Sign-up is closed" in visit().get("/").text


def test_an_invite_lets_one_person_sign_up(visit, invite, events):
    person = visit()
    page = person.get(f"/signup?invite={invite.uuid}").gives(200)
    assert "sam has invited you" in page.text and page.value("invite") == str(invite.uuid)
    assert page.header("Referrer-Policy") == "strict-origin"
    with events("user-joined", "invite-accepted"):
        person.post("/signup", **WANTED, invite=page.value("invite")).redirects_to("/")
    assert User.objects.get(username="Zoe").check_password(PASSWORD)
    again = {**WANTED, "username": "eve", "email": "eve@example.org"}
    with events():
        late = visit().post("/signup", **again, invite=str(invite.uuid)).gives(409)
    assert "already been accepted" in late.text
    assert late.value("email") == "eve@example.org"
    visit().get(f"/signup?invite={invite.uuid}").gives(409)


@pytest.mark.parametrize("named", ["nonsense", "00000000-0000-4000-8000-000000000000", "\0"])
def test_an_unknown_a_deleted_and_an_expired_invite_are_refused_with_the_reason(
    visit, invite, sam, named
):
    page = visit().post("/signup", **WANTED, invite=named).gives(404)
    assert page.alert() == "This invite does not exist." and page.value("username") == "Zoe"
    Invite.objects.update(expires_at=timezone.now())
    assert "expired" in visit().get(f"/signup?invite={invite.uuid}").gives(409).text
    actions.delete_invite(principal=principal_of(sam), invite=invite)
    visit().get(f"/signup?invite={invite.uuid}").gives(404)


def test_an_invite_for_an_address_takes_that_one_ignoring_case(visit, sam, events):
    later = timezone.now() + dt.timedelta(days=1)
    mine = actions.create_invite(
        principal=principal_of(sam), expires_at=later, email="ZOE@example.org"
    )
    wrong = {**WANTED, "email": "eve@example.org"}
    with events():
        page = visit().post("/signup", **wrong, invite=str(mine.uuid)).gives(422)
    assert 'href="#id_email"' in page.html and "ZOE@" not in page.html
    assert page.value("username") == "Zoe" and page.value("invite") == str(mine.uuid)
    assert "ZOE@" not in visit().get(f"/signup?invite={mine.uuid}").html
    visit().post("/signup", **WANTED, invite=str(mine.uuid)).redirects_to("/")


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"username": "two words"}, 422, "letters or digits"),
        ({"username": "self"}, 422, "reserved"),
        ({"username": "ADA"}, 409, "taken"),
        ({"email": "nonsense"}, 422, "valid email"),
        ({"email": ""}, 422, "required"),
        ({"password": "short1!", "again": "short1!"}, 422, "too short"),
        ({"again": "other"}, 422, "do not match"),
    ],
)
def test_an_invalid_field_is_named_and_nothing_typed_is_lost(
    visit, ada, events, changed, status, said
):
    change_site_settings(signups_require_invite=False)
    sent = WANTED | changed
    with events():
        page = visit().post("/signup", **sent).gives(status)
    assert said in page.alert()
    assert (page.value("username"), page.value("email")) == (sent["username"], sent["email"])
    kept = ("", "") if {"password", "again"} & {*changed} else (PASSWORD, PASSWORD)
    assert (page.value("password"), page.value("again")) == kept


def test_all_that_is_wrong_with_a_sign_up_is_said_at_once(visit, events):
    change_site_settings(signups_require_invite=False)
    wrong = {"username": "two words", "email": "nonsense", "password": "short1!", "again": "other"}
    with events():
        said = visit().post("/signup", **wrong).gives(422).alert()
    for words in ("letters or digits", "valid email", "too short", "Repeat the password"):
        assert words in said


def test_an_address_is_shown_and_used_once_its_link_was_opened(visit, ada, api, alice, events):
    """Only the person who opens the link is told that another account has the address."""
    change_site_settings(signups_require_invite=False)
    answers = []
    for name, address in (("Zoe", "zoe@example.org"), ("Eve", "ADA@example.org")):
        person = visit()
        with events("user-joined"):
            wanted = WANTED | {"username": name, "email": address}
            person.post("/signup", **wanted).redirects_to("/")
        home = person.get("/").text
        assert "not confirmed yet" in home
        answers.append(home.replace(name, "…").replace(address, "…"))
        assert person.get("/settings").value("email") == ""
    assert answers[0] == answers[1]
    assert [message.to for message in mails()] == [["zoe@example.org"], ["ADA@example.org"]]
    visit().post("/reset", email="zoe@example.org")
    assert len(mails()) == 2
    suggested = api(alice).get("/suggest-users?email=zoe@example.org")
    assert suggested.gives()["results"] == []
    for name, message in zip(("Zoe", "Eve"), mails(), strict=True):
        person = visit(User.objects.get(username=name))
        token = person.get(link_in(message)).value("token")
        answer = person.post("/settings/email", token=token)
        assert answer.status == (303 if name == "Zoe" else 422)
    kept = dict(User.objects.exclude(email="").values_list("username", "email"))
    assert kept == {"Ada": "ada@example.org", "Zoe": "zoe@example.org"}


def test_who_is_signed_in_signs_nobody_up(visit, alice, events):
    change_site_settings(signups_require_invite=False)
    with events():
        assert "signed in as alice" in visit(alice).post("/signup", **WANTED).gives(200).text


def test_attempts_to_sign_up_are_limited(visit, invite):
    set_rate_limit("signup", 1)
    visit().post("/signup", **WANTED).gives(403)
    assert visit().post("/signup", **WANTED).gives(429).header("Retry-After")
    visit().get(f"/signup?invite={invite.uuid}").gives(200)


def test_mail_to_one_address_is_limited_whoever_says_it_is_theirs(visit):
    change_site_settings(signups_require_invite=False)
    for number in range(MAIL_LIMIT.most + 1):
        visit().post("/signup", **WANTED | {"username": f"zoe{number}"}).redirects_to("/")
    assert [message.to[0] for message in mails()] == ["zoe@example.org"] * MAIL_LIMIT.most


INVITES = "/settings/invites"
NEW_INVITE = {"email": "", "expires_at": "7 days"}


def test_only_staff_invites_until_the_site_lets_everybody(visit, ada, sam, events):
    with events():
        assert "only staff" in visit(ada).get(INVITES).gives(403).text
        visit(ada).post(INVITES, **NEW_INVITE).gives(403)
    assert INVITES not in visit(ada).get("/settings").html
    assert INVITES in visit(sam).get("/settings").html
    with events("invite-created"):
        visit(sam).post(INVITES, **NEW_INVITE).redirects_to(INVITES)
    change_site_settings(signup_invite_creators="users")
    assert INVITES in visit(ada).get("/settings").html
    with events("invite-created"):
        visit(ada).post(INVITES, **NEW_INVITE).redirects_to(INVITES)


def test_an_invite_is_listed_with_its_link_for_its_creator_only(visit, sam):
    visit(sam).post(INVITES, email="zoe@example.org", expires_at="30 days").redirects_to(INVITES)
    link = f"http://127.0.0.1:8000/signup?invite={Invite.objects.get().uuid}"
    page = visit(sam).get(INVITES)
    assert link in page.html and "zoe@example.org" in page.text
    assert page.header("Cache-Control") == "no-store"
    other = visit(UserFactory.create(username="sue", staff=True)).get(INVITES)
    assert link not in other.html and "zoe@" not in other.html
    Invite.objects.update(expires_at=Invite.objects.get().created_at)
    assert link not in visit(sam).get(INVITES).html and "expired" in visit(sam).get(INVITES).text


@pytest.mark.parametrize("changed", [{"email": "nonsense"}, {"expires_at": "3 fortnights"}])
def test_an_invalid_field_is_named(visit, sam, events, changed):
    with events():
        page = visit(sam).post(INVITES, **(NEW_INVITE | changed)).gives(422)
    assert page.alert() and page.value("email") == changed.get("email", "")


def test_account_age_and_number_of_invites_are_limited_and_the_text_stays(visit, sam, events):
    change_site_settings(signup_invite_min_account_age="1d")
    page = visit(sam).post(INVITES, **NEW_INVITE | {"email": "zoe@example.org"}).gives(403)
    assert "1d old" in page.alert() and page.value("email") == "zoe@example.org"
    change_site_settings(signup_invite_min_account_age="0s", signup_invite_max_per_24h=1)
    visit(sam).post(INVITES, **NEW_INVITE).redirects_to(INVITES)
    with events():
        page = visit(sam).post(INVITES, **NEW_INVITE).gives(429)
    assert "reached the limit" in page.alert() and int(page.header("Retry-After")) > 86000


def test_deleting_asks_first_and_ends_the_link(visit, sam, events):
    visit(sam).post(INVITES, **NEW_INVITE)
    invite = Invite.objects.get()
    path = f"{INVITES}/{invite.uuid}/delete"
    other = visit(UserFactory.create(username="sue", staff=True))
    with events():
        other.post(path).gives(404)
        asks = visit(sam).get(path).gives()
        assert asks.h1 == "Delete this invite?" and asks.header("Cache-Control") == "no-store"
    with events("invite-deleted"):
        visit(sam).post(path).redirects_to(INVITES)
    with events():
        visit(sam).post(path).gives(404)
    visit().get(f"/signup?invite={invite.uuid}").gives(404)


def test_the_link_has_the_address_of_the_server_whatever_was_asked_for(server):
    staff, body = server.api("sam"), b'{"expires_at": "1 day"}'
    for host in ("localhost:6666", "127.0.0.1"):
        made = staff.send("POST", "/signup-invites", body, Host=host).gives(201)
        assert made["invite_url"].startswith(f"{server.url}/signup?")
