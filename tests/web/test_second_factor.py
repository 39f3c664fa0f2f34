"""Authenticator apps and recovery codes: the settings, and signing in with them."""

import re
import sys
import time
from subprocess import run

import pytest
from django.conf import settings
from django.core import mail
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_otp.oath import TOTP

from apps.accounts.factors import Authenticator, RecoveryCode
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.proofs import reset_proof
from apps.accounts.second_factors import actions
from apps.accounts.second_factors.actions import WRONG_CODE
from apps.accounts.second_factors.codes import app_link, key_text
from apps.core.errors import Conflict, Forbidden
from apps.core.mail import SENDER
from apps.events.audit import AuditEntry
from apps.site.limits import CODE_LIMIT
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD

pytestmark = pytest.mark.once


def code_of(person, ahead=0):
    """The code that the app of this person shows, `ahead` steps of 30 seconds from now."""
    app = TOTP(bytes.fromhex(Authenticator.objects.get(user=person).key))
    app.time = time.time() + 30 * ahead
    return f"{app.token():06}"


def notices():
    """The notices that have been sent, as the ends of their subjects."""
    SENDER.submit(int).result(timeout=60)
    return [message.subject.partition("account: ")[2] for message in mail.outbox]


@pytest.fixture
def with_app(ada):
    """Ada with an authenticator app, of which no code near now has been used; her recovery codes
    are in `codes`.
    """
    key = "00" * 20
    app = TOTP(bytes.fromhex(key))
    ada.codes = actions.turn_on(principal=Principal(ada), key=key, code=f"{app.token():06}")
    Authenticator.objects.filter(user=ada).update(last_step=0)
    mail.outbox.clear()
    return ada


@pytest.fixture
def waiting(visit, with_app):
    """A browser in which Ada's password was given, and no code."""
    person = visit()
    person.sign_in("Ada", next="/inbox").redirects_to("/signin/code")
    return person


def test_an_app_is_added_by_its_first_code(visit, ada, django_capture_on_commit_callbacks):
    person, other = visit(ada), visit(ada)
    person.get("/settings/second-factor").gives(200)
    page = person.get("/settings/second-factor/app").gives(200)
    assert (
        page.find(r'<img src="(data:image/svg[^"]*)"')
        and page.header("Cache-Control") == "no-store"
    )
    key = page.find(r"<code>([A-Z2-7 ]{39})</code>")
    app = TOTP(bytes.fromhex(person.client.session["new_authenticator"]))
    path, code = "/settings/second-factor/app", f"{app.token():06}"
    assert key not in person.post(path, current="wrong", code=code).gives(422).alert()
    assert WRONG_CODE in person.post(path, current=PASSWORD, code="000000").gives(422).alert()
    assert not User.objects.get(pk=ada.pk).has_second_factor
    with django_capture_on_commit_callbacks(execute=True):
        codes = person.post(path, current=PASSWORD, code=code).gives(201)
    assert len(re.findall(r"<li>(?:[a-z2-7]{4}-){3}[a-z2-7]{4}</li>", codes.html)) == 10
    assert codes.header("Cache-Control") == "no-store"
    assert person.is_signed_in
    assert not other.is_signed_in
    assert "10 codes left" in person.get("/settings/second-factor").text
    person.get(path).redirects_to("/settings/second-factor")
    assert notices() == ["a second factor was turned on"]


def test_apps_read_the_site_the_name_and_the_key(ada, settings):
    settings.BASE_URL = "https://code.example.org:8443"
    name, query = "code.example.org%3AAda", "secret=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    link = f"otpauth://totp/{name}?{query}&issuer=code.example.org"
    assert app_link(ada, "00" * 20) == link
    assert key_text("00" * 20) == " ".join(["AAAA"] * 8)


def test_the_password_alone_does_not_sign_in(waiting):
    assert not waiting.is_signed_in
    waiting.get("/admin/").redirects_to("/admin/login/?next=/admin/", 302)
    assert waiting.get("/signin/code").gives(200).h1 == "Enter your code"
    assert settings.SESSION_COOKIE_NAME in waiting.client.cookies
    assert "known" not in waiting.client.cookies


def test_a_code_signs_in_once(visit, waiting, with_app):
    before = waiting.client.cookies[settings.SESSION_COOKIE_NAME].value
    assert waiting.post("/signin/code", code="000000").gives(422).alert().endswith(WRONG_CODE)
    entry = AuditEntry.objects.latest("id")
    assert (entry.kind, entry.data) == ("sign-in-refused", {"reason": "wrong_code"})
    code = code_of(with_app)
    waiting.post("/signin/code", code=f"{code[:3]} {code[3:]}").redirects_to("/inbox")
    assert waiting.is_signed_in
    assert waiting.client.cookies[settings.SESSION_COOKIE_NAME].value != before
    assert "pending_sign_in" not in waiting.client.session
    again = visit()
    again.sign_in("Ada")
    again.post("/signin/code", code=code).gives(422)
    again.post("/signin/code", code=code_of(with_app, -1)).gives(422)
    again.post("/signin/code", code=code_of(with_app, 1)).redirects_to("/")


def test_codes_of_clocks_further_away_are_refused(waiting, with_app):
    for ahead in (-3, 3):
        waiting.post("/signin/code", code=code_of(with_app, ahead)).gives(422)
    waiting.post("/signin/code", code="۱۲۳۴۵۶").gives(422)


def test_a_recovery_code_signs_in_once(
    visit, waiting, with_app, django_capture_on_commit_callbacks
):
    code = with_app.codes[3]
    assert not RecoveryCode.objects.filter(digest__contains=code).exists()
    with django_capture_on_commit_callbacks(execute=True):
        waiting.post("/signin/code", code=code.upper()).redirects_to("/inbox")
    assert "9 codes left" in waiting.get("/settings/second-factor").text
    assert notices() == ["a recovery code was used"]
    again = visit()
    again.sign_in("Ada")
    again.post("/signin/code", code=code).gives(422)


def test_the_second_page_belongs_to_the_person_of_the_password(visit, waiting, with_app, alice):
    """Neither the code of another account nor a browser without the password gets further."""
    other = UserFactory.create(username="Eve", clear_password=PASSWORD)
    key = "11" * 20
    app = TOTP(bytes.fromhex(key))
    codes = actions.turn_on(principal=Principal(other), key=key, code=f"{app.token():06}")
    for code in (code_of(other, 1), codes[0]):
        waiting.post("/signin/code", code=code).gives(422)
    stranger = visit()
    stranger.get("/signin/code").redirects_to("/signin")
    stranger.post("/signin/code", code=code_of(with_app)).redirects_to("/signin")
    signed_in = visit(alice)
    signed_in.post("/signin/code", code=code_of(with_app)).redirects_to("/signin")
    assert signed_in.client.session["_auth_user_id"] == str(alice.pk)


def test_the_second_page_ends_with_time_password_and_account(waiting, with_app):
    session = waiting.client.session
    pending = session["pending_sign_in"]
    session["pending_sign_in"] = {**pending, "until": time.time() - 1}
    session.save()
    waiting.post("/signin/code", code=code_of(with_app)).redirects_to("/signin")
    session["pending_sign_in"] = pending
    session.save()
    waiting.get("/signin/code").gives(200)
    with_app.set_password("another horse battery")
    with_app.save()
    waiting.post("/signin/code", code=code_of(with_app)).redirects_to("/signin")


def test_a_planted_session_is_not_the_one_that_is_signed_in(visit, with_app):
    """Session fixation: the key changes with the password, and again with the code."""
    victim = visit()
    victim.get("/signin")
    victim.sign_in("Ada")
    key = victim.client.cookies[settings.SESSION_COOKIE_NAME].value
    thief = visit()
    thief.client.cookies[settings.SESSION_COOKIE_NAME] = key
    victim.post("/signin/code", code=code_of(with_app)).redirects_to("/")
    assert not thief.is_signed_in
    thief.get("/signin/code").redirects_to("/signin")


def test_codes_are_limited_for_an_account(visit, with_app):
    """From any address; a browser that the account knows has attempts of its own."""
    browser = visit()
    browser.sign_in("Ada")
    browser.post("/signin/code", code=code_of(with_app)).redirects_to("/")
    thief = visit()
    thief.sign_in("Ada").redirects_to("/signin/code")
    for number in range(CODE_LIMIT.most - 1):  # one has signed in
        thief.client.defaults["REMOTE_ADDR"] = f"10.0.{number}.1"
        thief.post("/signin/code", code="000000").gives(422)
    answer = thief.post("/signin/code", code="000000").gives(429)
    assert int(answer.header("Retry-After")) > 3600
    thief.post("/signin/code", code=code_of(with_app)).gives(429)
    assert not thief.is_signed_in
    browser.post("/signout")
    browser.sign_in("Ada")
    browser.post("/signin/code", code=code_of(with_app, 1)).redirects_to("/")


def test_a_password_reset_gives_no_further_attempts(visit, with_app):
    """Its link makes a browser known. Otherwise each link would allow as many codes as a day."""
    thief = visit()

    def reset(password):
        thief.client.cookies.pop("known", None)
        proof = reset_proof(User.objects.get(pk=with_app.pk))
        fields = {"token": proof, "password": password, "again": password}
        thief.post("/reset/new", **fields).redirects_to("/signin")
        thief.sign_in("Ada", password).redirects_to("/signin/code")

    reset("another horse battery")
    for number in range(CODE_LIMIT.most):
        thief.client.defaults["REMOTE_ADDR"] = f"10.0.{number}.1"
        thief.post("/signin/code", code="000000").gives(422)
    reset("yet another horse battery")
    thief.post("/signin/code", code=code_of(with_app)).gives(429)


def test_the_admin_has_no_other_sign_in(visit, with_app):
    with_app.is_staff = with_app.is_superuser = True
    with_app.save()
    person = visit()
    login = person.get("/admin/login/?next=/admin/")
    person.post("/admin/login/", username="Ada", password=PASSWORD).gives(405)
    goal = person.get(login.header("Location")).value("next")
    person.sign_in("Ada", next=goal).redirects_to("/signin/code")
    person.get("/admin/").redirects_to("/admin/login/?next=/admin/", 302)
    person.post("/signin/code", code=code_of(with_app)).redirects_to(goal)
    person.get("/admin/").gives(200)


def test_a_password_reset_keeps_the_second_factor(visit, with_app):
    person, new = visit(), "another horse battery"
    fields = {"token": reset_proof(with_app), "password": new, "again": new}
    person.post("/reset/new", **fields).redirects_to("/signin")
    person.sign_in("Ada", new).redirects_to("/signin/code")
    assert not person.is_signed_in


def test_confirming_a_password_takes_a_code_too(visit, with_app):
    person, new = visit(with_app), "another horse battery"
    fields = {"current": PASSWORD, "password": new, "again": new}
    person.post("/settings/password", **fields).gives(422)
    person.post("/settings/password", **fields, code="000000").gives(422)
    weak = {"current": PASSWORD, "password": "1234", "again": "1234"}
    person.post("/settings/password", **weak, code=code_of(with_app)).gives(422)
    person.post("/settings/password", **fields, code=code_of(with_app)).redirects_to(
        "/settings/password"
    )
    moved = {**person.get("/settings").inputs(), "email": "", "current": new}
    person.post("/settings", **{**moved, "code": code_of(with_app)}).gives(422)
    person.post("/settings", **{**moved, "code": with_app.codes[0]}).redirects_to("/settings")


def test_recovery_codes_are_replaced(visit, with_app, django_capture_on_commit_callbacks):
    person, path = visit(with_app), "/settings/second-factor/codes"
    person.get(path).gives(200)
    person.post(path, current=PASSWORD, code="000000").gives(422)
    person.post(path, current="wrong", code=code_of(with_app)).gives(422)
    with django_capture_on_commit_callbacks(execute=True):
        person.post(path, current=PASSWORD, code=code_of(with_app)).gives(201)
    assert notices() == ["new recovery codes were created; the old ones no longer work"]
    assert not actions.use_code(principal=Principal(with_app), code=with_app.codes[0])


def test_turning_it_off_takes_password_and_code(
    visit, with_app, django_capture_on_commit_callbacks
):
    person, path = visit(with_app), "/settings/second-factor/remove"
    person.get(path).gives(200)
    person.post(path, current=PASSWORD).gives(422)
    person.post(path, current="wrong", code=code_of(with_app)).gives(422)
    with django_capture_on_commit_callbacks(execute=True):
        person.post(path, current=PASSWORD, code=code_of(with_app)).redirects_to(
            "/settings/second-factor"
        )
    assert notices() == ["the second factor was turned off"]
    assert not RecoveryCode.objects.exists()
    visit().sign_in("Ada").redirects_to("/")


def test_a_session_without_a_factor_does_not_begin_while_one_is_added(visit, with_app):
    """The password was checked before the app was added by another request."""
    from apps.web.signin import start_session

    earlier = User.objects.get(pk=with_app.pk)
    earlier.has_second_factor = False
    request = visit().get("/signin").response.wsgi_request
    assert not start_session(request, earlier)


def test_staff_resets_a_second_factor(visit, with_app, sam, django_capture_on_commit_callbacks):
    signed_in = visit(with_app)
    with pytest.raises(Forbidden):
        actions.reset_second_factor(principal=principal_of(with_app), user=with_app)
    path = f"/admin/accounts/user/{with_app.pk}/second-factor/"
    visit(sam).get(path).gives(200)
    with django_capture_on_commit_callbacks(execute=True):
        visit(sam).post(path)
    assert notices() == ["the second factor was turned off by the staff of the site"]
    assert not signed_in.is_signed_in
    visit().sign_in("Ada").redirects_to("/")


def test_an_operator_resets_a_second_factor(
    visit, with_app, capsys, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        call_command("reset_second_factor", "ADA")
    assert capsys.readouterr().out == "Ada has no second factor any more, and is signed out.\n"
    assert notices() == ["the second factor was turned off by the staff of the site"]
    visit().sign_in("Ada").redirects_to("/")
    call_command("reset_second_factor", "Ada")
    assert capsys.readouterr().out == "Ada has no second factor.\n"


def test_a_site_without_any_is_unchanged(visit, ada):
    """Signing in reads no table of second factors, and no process loads their libraries."""
    with CaptureQueriesContext(connection) as queries:
        visit().sign_in("Ada").redirects_to("/")
    tables = re.compile("accounts_(authenticator|recoverycode|passkey)")
    assert not [sql for query in queries if tables.search(sql := query["sql"])]
    program = (
        "import os, sys, django\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "django.setup()\n"
        "import config.urls, config.wsgi\n"
        "print(*{'django_otp', 'webauthn', 'segno'} & set(sys.modules))\n"
    )
    done = run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_an_app_is_not_replaced_by_another(with_app):
    with pytest.raises(Conflict):
        actions.turn_on(principal=principal_of(with_app), key="22" * 20, code="000000")
