"""Signing in, signing up and linking by a small OpenID provider over real HTTP."""

import datetime as dt
import io
import json
import os
import sys
from pathlib import Path
from subprocess import run

import pytest
from django.core import mail
from django.utils import timezone
from django_otp.oath import TOTP

from apps.accounts.actions import create_invite
from apps.accounts.identities import Identity
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.second_factors import actions as second_factors
from apps.core.mail import SENDER
from apps.teams.models import Member, Role, Team
from config.moving.people import write_person
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.principals import principal_of
from tests.web.openid_client import sign_in
from tests.web.page_client import PASSWORD
from tests.web.test_second_factor import code_of
from tests.web.test_signup import change_site_settings

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def linked(provider, ada):
    """Ada, whose account is linked to the person of the provider."""
    Identity.objects.create(user=ada, issuer=provider.issuer, subject=provider.person["sub"])
    return ada


def test_the_first_sign_in_makes_an_account(visit, provider, events):
    provider.person |= {"email": "Ada@Example.org", "email_verified": True}
    person = visit()
    assert 'href="/signin/openid?next=/inbox"' in person.get("/signin?next=/inbox").html
    with events("user-joined"):
        sign_in(person, next="/inbox").redirects_to("/inbox")
    user = User.objects.get(username="ada.l")
    assert (user.display_name, user.email) == ("Ada Lovelace", "Ada@example.org")
    assert not user.has_usable_password()
    assert "Your username is ada.l" in person.get("/inbox").text
    other = visit()
    with events():
        sign_in(other).redirects_to("/")
    assert other.is_signed_in
    assert User.objects.count() == 1


@pytest.mark.parametrize("ways", [["client_secret_post"], ["client_secret_basic"], None])
def test_the_secret_is_sent_as_the_provider_takes_it(visit, provider, ways):
    provider.metadata["token_endpoint_auth_methods_supported"] = ways or []
    sign_in(visit()).redirects_to("/")


@pytest.mark.parametrize(
    ("wished", "given"),
    [
        ("ADA", "ADA-2"),
        ("ada@example.org", "ada-example.org"),
        ("Ádá Ł", "Ada-2"),
        ("…", "person"),
        (None, "person"),
        (7, "person"),
        ("self", "self-2"),
        ("deleted-account-1", "person"),
    ],
)
def test_usernames_are_made_valid_and_free(visit, provider, ada, wished, given):
    provider.person["preferred_username"] = wished
    sign_in(visit()).redirects_to("/")
    assert Identity.objects.get().user.username == given


def test_sign_up_follows_the_settings_of_the_site(visit, provider, sam, settings):
    change_site_settings(signups_enabled=False)
    assert "closed" in sign_in(visit()).gives(403).text
    change_site_settings(signups_enabled=True, signups_require_invite=True)
    assert "need an invite" in sign_in(visit()).gives(403).text
    assert "need an invite" in visit().get("/signin").text
    settings.OIDC_SIGNUPS_ALL = True
    assert "New here? Sign in by Example SSO." in visit().get("/signin").text
    sign_in(visit()).redirects_to("/")
    settings.OIDC_SIGNUPS_ALL, provider.person["sub"] = False, "0002"
    later = timezone.now() + dt.timedelta(days=1)
    email = "ada@home.example"
    invite = create_invite(principal=principal_of(sam), expires_at=later, email=email)
    person = visit()
    link = f"/signin/openid?invite={invite.uuid}"
    assert f'href="{link}"' in person.get(f"/signup?invite={invite.uuid}").html
    provider.person |= {"email": "ada@home.example", "email_verified": False}
    sign_in(person, invite=str(invite.uuid)).gives(422)
    provider.person["email_verified"] = True
    sign_in(person, invite=str(invite.uuid)).redirects_to("/")
    invite.refresh_from_db()
    assert invite.accepted_by == Identity.objects.get(subject="0002").user


def test_a_second_factor_is_still_asked(visit, linked):
    key = "00" * 20
    app = TOTP(bytes.fromhex(key))
    second_factors.turn_on(principal=Principal(linked), key=key, code=f"{app.token():06}")
    person = visit()
    sign_in(person, next="/inbox").redirects_to("/signin/code")
    assert not person.is_signed_in
    person.post("/signin/code", code=code_of(linked, 1)).redirects_to("/inbox")
    assert person.is_signed_in


def test_a_person_links_an_identity_after_their_password(
    visit, provider, ada, events, django_capture_on_commit_callbacks
):
    person = visit(ada)
    assert "Link an account" in person.get("/settings/sign-in").gives(200).text
    person.get("/signin/openid?purpose=link").redirects_to("/settings/sign-in/link")
    person.post("/settings/sign-in/link", current="wrong").gives(422)
    page = person.post("/settings/sign-in/link", current=PASSWORD).gives(200)
    assert 'href="/signin/openid?purpose=link"' in page.html
    with events("user-updated"), django_capture_on_commit_callbacks(execute=True):
        sign_in(person, purpose="link").redirects_to("/settings/sign-in")
    assert f"at {provider.issuer}" in person.get("/settings/sign-in").text
    SENDER.submit(int).result(timeout=60)
    assert "was linked" in mail.outbox[-1].subject
    browser = visit()
    sign_in(browser).redirects_to("/")
    assert User.objects.get() == ada and browser.is_signed_in
    path = f"/settings/sign-in/{Identity.objects.get().uuid}/remove"
    person.get(path).gives(200)
    with events("user-updated"):
        person.post(path, current=PASSWORD).redirects_to("/settings/sign-in")
    assert not Identity.objects.exists()


def test_an_identity_signs_in_to_one_account(visit, provider, linked):
    other = visit(UserFactory.create(username="eve", clear_password=PASSWORD))
    other.post("/settings/sign-in/link", current=PASSWORD).gives(200)
    assert "another account" in sign_in(other, purpose="link").gives(409).text
    own = visit(linked)
    provider.person["sub"] = "0002"
    own.post("/settings/sign-in/link", current=PASSWORD).gives(200)
    assert "Unlink it first" in sign_in(own, purpose="link").gives(409).text


def test_people_without_a_password_confirm_at_the_provider(visit, provider):
    person = visit()
    provider.claims["auth_time"] = None
    sign_in(person).redirects_to("/")
    path = "/settings/second-factor/app"
    assert "Your password" not in person.get(path).gives(200).text
    app = TOTP(bytes.fromhex(person.client.session["new_authenticator"]))
    refused = person.post(path, code=f"{app.token():06}").gives(422)
    assert "Sign in by Example SSO again" in refused.alert()
    assert f'href="/signin/openid?purpose=confirm&amp;next={path}"' in refused.html
    provider.claims["auth_time"] = 1_000_000_000
    sign_in(person, purpose="confirm", next=path).gives(403)
    del provider.claims["auth_time"]
    provider.person["sub"] = "0002"
    sign_in(person, purpose="confirm", next=path).gives(403)
    provider.person["sub"] = "0001"
    sign_in(person, purpose="confirm", next=path).redirects_to(path)
    app = TOTP(bytes.fromhex(person.client.session["new_authenticator"]))
    person.post(path, code=f"{app.token():06}").gives(201)


def test_people_without_a_password_get_none(visit, provider, settings):
    provider.person |= {"email": "ada@example.org", "email_verified": True}
    person = visit()
    sign_in(person).redirects_to("/")
    assert "without a password" in person.get("/settings/password").gives(403).text
    assert 'href="/settings/password"' not in person.get("/settings").html
    identity = Identity.objects.get()
    person.post(f"/settings/sign-in/{identity.uuid}/remove").gives(403)
    visit().post("/reset", email="ada@example.org").redirects_to("/reset/sent")
    SENDER.submit(int).result(timeout=60)
    assert mail.outbox == []


def test_without_local_passwords_nobody_uses_one(visit, provider, linked, settings):
    settings.LOCAL_PASSWORDS = False
    person = visit()
    page = person.get("/signin").gives(200)
    assert 'name="password"' not in page.html and "Sign in by Example SSO" in page.text
    assert "no passwords" in person.sign_in("Ada").gives(403).alert()
    assert 'name="password"' not in person.get("/signup").gives(200).html
    fields = {"username": "eve", "email": "e@example.org", "password": PASSWORD, "again": PASSWORD}
    person.post("/signup", **fields).gives(403)
    for path in ("/reset", "/reset/new"):
        assert "no passwords" in person.get(path).gives(403).text
        person.post(path, email="ada@example.org", password=PASSWORD).gives(403)
    sign_in(person).redirects_to("/")
    person.post("/settings/password", current=PASSWORD).gives(403)
    assert User.objects.count() == 1


@pytest.fixture
def mapping(settings):
    """Groups of the provider that give teams and staff."""
    settings.OIDC_STAFF_GROUP = "admins"
    settings.OIDC_TEAM_GROUPS = {
        "/devs": (("acme", "member"), ("labs", "viewer")),
        "/leads": (("acme", "admin"),),
    }


@pytest.fixture
def labs():
    return TeamFactory.create(slug="labs")


def roles(user):
    return {str(member.team.slug): str(member.role) for member in user.memberships.all()}


def groups(provider, visit, *names):
    """Sign in with these groups."""
    provider.person["groups"] = [*names]
    sign_in(visit()).redirects_to("/")


def test_groups_give_and_take_memberships(visit, provider, linked, mapping, acme, labs, events):
    with events("member-added", "member-added"):
        groups(provider, visit, "/devs", "/other")
    assert roles(linked) == {"acme": "member", "labs": "viewer"}
    with events("member-updated"):
        groups(provider, visit, "/leads", "/devs")
    assert roles(linked) == {"acme": "admin", "labs": "viewer"}
    with events("member-removed"):
        provider.person["groups"] = "/leads"
        sign_in(visit()).redirects_to("/")
    assert roles(linked) == {"acme": "admin"}
    Member.objects.filter(user=linked).update(role="owner")
    with events("member-updated"):
        groups(provider, visit, "/leads")
    assert roles(linked) == {"acme": "admin"}
    with events("member-removed"):
        del provider.person["groups"]
        sign_in(visit()).redirects_to("/")
    assert roles(linked) == {}


def test_groups_leave_members_alone_whom_people_have_added(
    visit, provider, linked, mapping, acme, labs, alice
):
    MemberFactory.create(team=acme, user=linked, role=Role.OWNER, added_by=alice)
    groups(provider, visit, "/devs")
    assert roles(linked) == {"acme": "owner", "labs": "viewer"}
    groups(provider, visit)
    assert roles(linked) == {"acme": "owner"}


def test_groups_do_not_take_the_last_owner(visit, provider, linked, mapping, acme, caplog):
    groups(provider, visit, "/devs")
    Member.objects.filter(team=acme).exclude(user=linked).delete()
    Member.objects.filter(user=linked).update(role="owner")
    groups(provider, visit)
    assert roles(linked) == {"acme": "owner"}
    assert "stays an owner of acme" in caplog.text


def test_an_inactive_team_gets_no_members_by_groups_but_loses_them(
    visit, provider, linked, mapping, acme
):
    Team.objects.filter(pk=acme.pk).update(is_active=False)
    groups(provider, visit, "/devs")
    assert roles(linked) == {}
    Member.objects.create(team=acme, user=linked, role="member", is_by_group=True)
    groups(provider, visit)
    assert roles(linked) == {}


def test_a_group_gives_and_takes_staff(visit, provider, linked, mapping, sam, events, caplog):
    with events("user-updated"):
        groups(provider, visit, "admins")
    assert User.objects.get(pk=linked.pk).is_staff
    with events("user-updated"):
        groups(provider, visit)
    assert not User.objects.get(pk=linked.pk).is_staff
    User.objects.filter(pk=linked.pk).update(is_staff=True, is_superuser=True)
    groups(provider, visit, "admins")
    groups(provider, visit)
    assert User.objects.get(pk=linked.pk).is_staff  # a person gave it, and no group
    Identity.objects.update(gives_staff=True)
    User.objects.filter(pk=sam.pk).update(is_staff=False)
    groups(provider, visit)
    assert User.objects.get(pk=linked.pk).is_staff
    assert "the last of the staff" in caplog.text


def test_unlinking_takes_the_rights_of_groups(visit, provider, linked, mapping, acme, labs, sam):
    groups(provider, visit, "/devs", "admins")
    path = f"/settings/sign-in/{Identity.objects.get().uuid}/remove"
    visit(linked).post(path, current=PASSWORD).redirects_to("/settings/sign-in")
    assert roles(linked) == {}
    assert not User.objects.get(pk=linked.pk).is_staff


def test_identities_are_in_the_data_of_a_person(linked, provider):
    file = io.BytesIO()
    write_person(Principal(linked), "http://127.0.0.1:8000", file)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    [record] = [line["record"] for line in lines if line["type"] == "identity"]
    assert (record["issuer"], record["subject"]) == (provider.issuer, "0001")


LOADED = """
import django, sys
django.setup()
from django.urls import get_resolver, reverse
get_resolver().url_patterns
from django.conf import settings
print(*(name in sys.modules for name in ("mozilla_django_oidc", "jwt")))
print(len(settings.AUTHENTICATION_BACKENDS))
try:
    print(reverse("openid-callback"))
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("issuer", "expected"),
    [
        ("", "False False\n1\nNoReverseMatch\n"),
        ("https://sso.example.org", "True True\n2\n/signin/openid/callback\n"),
    ],
)
def test_a_site_without_an_issuer_loads_none_of_it(tmp_path, issuer, expected):
    variables = {"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    if issuer:
        variables |= {"OIDC_ISSUER": issuer, "OIDC_CLIENT_ID": "a", "OIDC_CLIENT_SECRET": "b"}
    command = [sys.executable, "-c", LOADED]
    result = run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True)
    assert result.stdout == expected, result.stderr
