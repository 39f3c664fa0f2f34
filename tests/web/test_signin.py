"""Signing in and out; `/settings/password`, `/reset` and the mail with its link."""

import re
from threading import get_ident
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth import hashers
from django.contrib.auth.hashers import make_password
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.proofs import address_proof, proven_address
from apps.core.errors import NotFound
from apps.core.mail import SENDER
from apps.web.signin import WRONG
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient

pytestmark = pytest.mark.once
ELSEWHERE = ["https://evil.example/", "//evil.example/", r"/\evil.example", r"\\evil.example"]
ELSEWHERE += ["javascript:alert(1)", "///evil.example", "settings", "\x01//evil.example"]


def test_username_and_password_sign_in_ignoring_the_case_of_the_name(visit, ada):
    person = visit()
    assert person.sign_in("Ada", "wrong").gives(422).alert() == WRONG
    assert not person.is_signed_in
    person.sign_in("aDA").redirects_to("/")
    assert person.is_signed_in


@pytest.mark.parametrize("fields", [("Ada", ""), ("", PASSWORD), ("", "")])
def test_a_missing_field_is_named_and_linked(visit, ada, fields):
    page = visit().sign_in(*fields).gives(422)
    assert page.alert().count("This field is required.") == fields.count("")
    assert page.value("username") == fields[0] and page.value("password") == ""
    assert ('href="#id_username"' in page.html) == (not fields[0])


def test_unknown_wrong_and_deactivated_answer_the_same_after_the_same_work(visit, ada, monkeypatch):
    work = []
    hasher = type(hashers.get_hasher())
    hashed = hasher.encode

    def encode(*some):
        work.append(some)
        return hashed(*some)

    monkeypatch.setattr(hasher, "encode", encode)
    gone = UserFactory.create(username="gone", clear_password=PASSWORD)
    gone.is_active = False
    gone.save()
    UserFactory.create(username="without")
    answers = set()
    for name in ("nobody", "Ada", "without", "gone"):
        work.clear()
        page = visit().sign_in(name, PASSWORD if name != "Ada" else "wrong")
        answers.add((page.status, page.alert(), len(work)))
    assert answers == {(422, WRONG, 1)}


def test_a_deactivated_user_cannot_sign_in_and_is_signed_out(visit, ada):
    inside = visit(ada)
    assert inside.is_signed_in
    ada.is_active = False
    ada.save()
    assert not inside.is_signed_in
    assert visit().sign_in("Ada").gives(422).alert() == WRONG


@pytest.mark.parametrize("path", ELSEWHERE)
def test_next_leads_to_no_other_host(visit, ada, path):
    assert visit().get("/signin?next=" + path).value("next") == "/"
    visit().sign_in("Ada", next=path).redirects_to("/")


def test_next_leads_back_to_the_page_that_was_asked_for(visit, ada):
    person = visit()
    signin = "/signin?next=/settings/tokens%3Fpage%3D2"
    person.get("/settings/tokens?page=2").redirects_to(signin, 302)
    goal = person.get(signin).value("next")
    assert person.sign_in("Ada", "wrong", next=goal).value("next") == goal
    person.sign_in("Ada", next=goal).redirects_to("/settings/tokens?page=2")


def test_signing_in_starts_a_new_session(visit, ada, alice):
    person = visit()
    person.sign_in("Ada")
    first = person.client.cookies[settings.SESSION_COOKIE_NAME].value
    person.sign_in("Ada")
    assert person.client.cookies[settings.SESSION_COOKIE_NAME].value != first
    stolen = visit()
    stolen.client.cookies[settings.SESSION_COOKIE_NAME] = first
    assert not stolen.is_signed_in


def test_a_cookie_that_is_no_key_is_no_session(db):
    """PostgreSQL fails at a NUL, which a quoted cookie can have."""
    cookie = '"\\000aaaaaaaaaaaaaaaa"'
    assert Client(headers={"Cookie": f"sessionid={cookie}"}).get("/signin").status_code == 200


def test_signing_out_takes_a_post_and_ends_the_session_for_good(visit, ada):
    person = visit(ada)
    key = person.client.cookies[settings.SESSION_COOKIE_NAME].value
    assert person.get("/signout").status == 405
    assert person.is_signed_in
    answer = person.post("/signout").redirects_to("/")
    assert answer.header("Clear-Site-Data") == '"cache"'
    person.client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert not person.is_signed_in
    person.post("/signout").redirects_to("/")


def test_who_is_signed_in_already_is_told_so(visit, ada):
    page = visit(ada).get("/signin?next=/settings").gives(200)
    assert "signed in as Ada" in page.text and 'href="/settings">Continue' in page.html


def test_the_admin_uses_the_same_sign_in_page(visit, alice, sam):
    visit().get("/admin/").redirects_to("/admin/login/?next=/admin/", 302)
    asked = visit().get("/admin/login/?next=/admin/")
    asked.redirects_to("/signin?next=/admin/login/%3Fnext%3D/admin/", 302)
    assert visit(alice).get("/admin/login/?next=/admin/").gives(403).h1
    visit(sam).get("/admin/login/?next=/admin/").redirects_to("/admin/", 302)
    visit(sam).get("/admin/").gives(200)


def test_asking_for_the_head_of_a_page_does_not_sign_out(client, ada):
    client.force_login(ada)
    assert client.head("/signout").status_code == 405
    assert client.get("/settings").status_code == 200


def test_the_way_to_sign_in_keeps_the_secret_of_a_link_to_itself(visit):
    """A link from a mail, opened before signing in, is in the address of each step."""
    link = "/settings/email?token=hush"
    steps = [visit().get(link), visit().post(link), visit().get(f"/signin?next={link}")]
    steps += [visit().get("/signup?invite=hush"), visit().get("/admin/login/?next=/reset/new")]
    for step in steps:
        assert step.header("Cache-Control") == "no-store", step.text
        assert step.header("Referrer-Policy") == "strict-origin", step.text


def test_a_session_ends_for_good_when_the_account_is_deactivated(visit, ada, sam):
    """The session is not used while the account is deactivated."""
    inside, staff = visit(ada), principal_of(sam)
    assert inside.is_signed_in
    actions.deactivate_user(principal=staff, user=ada)
    actions.reactivate_user(principal=staff, user=ada)
    assert not inside.is_signed_in
    inside.sign_in("Ada").redirects_to("/")
    actions.update_user(principal=staff, user=ada, email="other@example.org")
    assert inside.is_signed_in


NEW = "new horse, new battery"
SENT = "Check your e-mail"


def change(person, current=PASSWORD, password=NEW, again=NEW):
    fields = {"current": current, "password": password, "again": again}
    return person.post("/settings/password", **fields)


def mails():
    """All messages, after the queue has been sent."""
    SENDER.submit(get_ident).result(timeout=60)
    return mail.outbox


def link_in(message):
    return re.findall(r"http://127.0.0.1:8000(/\S+)", message.body)[0]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"current": "wrong"}, "Wrong password."),
        ({"again": "other"}, "The passwords do not match."),
        ({"password": "short1!", "again": "short1!"}, "too short"),
        ({"password": "password", "again": "password"}, "too common"),
        ({"password": "", "again": ""}, "This field is required."),
    ],
)
def test_a_wrong_old_or_a_weak_new_password_changes_nothing(visit, ada, events, fields, said):
    person = visit(ada)
    with events():
        page = change(person, **fields).gives(422)
    assert said in page.alert() and person.is_signed_in
    assert not any(page.value(name) for name in ("current", "password", "again"))
    visit().sign_in("Ada").redirects_to("/")


def test_a_new_password_ends_all_other_sessions_but_no_token(visit, ada, make, events):
    person, elsewhere = visit(ada), visit(ada)
    before = person.client.session.session_key
    with events("user-updated"):
        change(person).redirects_to("/settings/password")
    assert person.is_signed_in and not elsewhere.is_signed_in
    assert person.client.session.session_key != before
    visit().sign_in("Ada").gives(422)
    visit().sign_in("Ada", NEW).redirects_to("/")
    Api(make.token(ada)).get("/api-tokens/self").gives()


def test_a_reset_answers_the_same_whether_there_is_such_an_account_or_not(visit, ada):
    gone = UserFactory.create(username="gone", email="gone@example.org")
    gone.is_active = False
    gone.save()
    for address in ("nobody@example.org", "gone@example.org", ada.email):
        visit().post("/reset", email=address).redirects_to("/reset/sent")
    assert visit().get("/reset/sent").gives().h1 == SENT
    assert [one.to for one in mails()] == [["ada@example.org"]]
    visit().post("/reset", email="").gives(422)


@pytest.mark.parametrize(
    ("listening", "base_url", "begin"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:8000"),
        ("0.0.0.0", "", "http://localhost:8000"),  # noqa: S104 - read, not bound
        ("::", "", "http://localhost:8000"),
        ("::1", "", "http://[::1]:8000"),
        ("0.0.0.0", "https://code.example.org", "https://code.example.org"),  # noqa: S104
    ],
)
@pytest.mark.parametrize("asked", ["evil.example", "code.example.org:6666", "localhost:6666"])
def test_no_link_leads_to_a_host_or_port_that_a_request_names(
    visit, ada, sam, api, settings, listening, base_url, begin, asked
):
    settings.ALLOWED_HOSTS, settings.HOST, settings.PORT = ["*"], listening, 8000
    settings.BASE_URL, host = base_url, {"host": asked}
    visit().post("/reset", host, email=ada.email).redirects_to("/reset/sent")
    assert f"{begin}/reset/new?" in mails()[0].body and asked not in mails()[0].body
    caller = api(sam)
    caller.headers |= host
    made = caller.post("/signup-invites", expires_at="1d").gives(201)
    link = f"{begin}/signup?invite={made['uuid']}"
    found = caller.get(f"/signup-invites/{made['uuid']}").gives()["invite_url"]
    assert made["invite_url"] == found == link
    assert link in visit(sam).get("/settings/invites", **host).html
    invite = Invite.objects.get()
    assert link in visit(sam).get(f"/admin/accounts/invite/{invite.pk}/change/", **host).html


def test_the_answer_does_not_wait_for_the_mail(visit, ada, monkeypatch):
    senders = []
    monkeypatch.setattr(EmailBackend, "open", lambda self: senders.append(get_ident()))
    monkeypatch.setattr(EmailBackend, "send_messages", lambda self, some: self.open())
    visit().post("/reset", email=ada.email).redirects_to("/reset/sent")
    mails()
    assert senders and get_ident() not in senders


def test_the_link_gives_a_new_password_once_and_ends_every_session(visit, ada, events):
    inside = visit(ada)
    visit().post("/reset", email="ADA@example.org").redirects_to("/reset/sent")
    link = link_in(mails()[0])
    reader = visit()
    page = reader.get(link).gives()
    sent = {"token": page.value("token")}
    assert page.header("Referrer-Policy") == "strict-origin"
    assert page.header("Cache-Control") == "no-store"
    with events():
        reader.post("/reset/new", **sent, password="short1!", again="short1!").gives(422)
    with events("user-updated"):
        reader.post("/reset/new", **sent, password=NEW, again=NEW).redirects_to("/signin")
    assert not inside.is_signed_in and not reader.is_signed_in
    assert "Sign in with it" in reader.get("/signin").text
    assert "has been used" in reader.get(link).gives(404).text
    reader.post("/reset/new", **sent, password=PASSWORD, again=PASSWORD).gives(404)
    visit().sign_in("Ada", NEW).redirects_to("/")


def before_hashing(monkeypatch, action):
    """Run `action` once, between the check of a link and the lock."""

    def hash_late(password):
        monkeypatch.setattr(actions, "make_password", make_password)
        action()
        return make_password(password)

    monkeypatch.setattr(actions, "make_password", hash_late)


def test_of_two_who_use_one_link_at_once_one_chooses_the_password(visit, ada, monkeypatch):
    visit().post("/reset", email=ada.email)
    page = visit().get(link_in(mails()[0]))
    sent = {"token": page.value("token")}

    def change_first():
        visit().post("/reset/new", **sent, password=NEW, again=NEW).redirects_to("/signin")

    before_hashing(monkeypatch, change_first)
    late = visit().post("/reset/new", **sent, password=NEW + "!", again=NEW + "!").gives(409)
    assert "changed in the meantime" in late.alert()
    visit().sign_in("Ada", NEW).redirects_to("/")


def test_a_link_that_is_wrong_or_too_old_leads_nowhere(visit, ada, settings):
    visit().post("/reset", email=ada.email)
    link = link_in(mails()[0])
    bare = "/reset/new"
    for wrong in (link[:-1], link[:-8], bare, f"{bare}?token=\0", f"{bare}?token=é:1"):
        visit().get(wrong).gives(404)
    proof = address_proof(ada, ada.email)
    visit().get(f"/reset/new?{urlencode({'token': proof})}").gives(404)
    visit().get(link).gives(200)
    settings.PASSWORD_RESET_TIMEOUT = -1
    visit().get(link).gives(404)


def move_and_return(by, ada):
    for email in ("other@example.org", "ada@example.org"):
        actions.update_user(principal=by, user=ada, email=email)


def close_and_open(by, ada):
    actions.deactivate_user(principal=by, user=ada)
    actions.reactivate_user(principal=by, user=ada)


def sign_in(by, ada):
    PageClient().sign_in("Ada").redirects_to("/")


@pytest.mark.parametrize("happens", [move_and_return, close_and_open, sign_in])
def test_a_link_has_ended_for_good_once_the_account_was_another(visit, ada, sam, happens):
    """Even if the account is the same again afterwards."""
    visit().post("/reset", email=ada.email)
    link, proof = link_in(mails()[0]), address_proof(ada, "new@example.org")
    visit().get(link).gives(200)
    happens(principal_of(sam), ada)
    visit().get(link).gives(404)
    if happens is not sign_in:
        ada.refresh_from_db()
        with pytest.raises(NotFound):
            proven_address(ada, proof)


def test_a_link_ends_with_a_closed_account_and_while_it_is_used(visit, ada, sam, monkeypatch):
    """Staff deactivates and reactivates the account between the check of the link and the lock."""
    visit().post("/reset", email=ada.email)
    page = visit().get(link_in(mails()[0]))
    again = User.objects.get(pk=ada.pk)
    before_hashing(monkeypatch, lambda: close_and_open(principal_of(sam), again))
    late = visit().post("/reset/new", token=page.value("token"), password=NEW, again=NEW)
    assert "changed in the meantime" in late.gives(409).alert()
    visit().sign_in("Ada").redirects_to("/")


def test_a_message_that_cannot_be_sent_is_logged_without_its_address(
    visit, ada, monkeypatch, caplog
):
    def refuse(*_):
        raise OSError("ada@example.org refused")

    monkeypatch.setattr(EmailBackend, "send_messages", refuse)
    visit().post("/reset", email=ada.email).redirects_to("/reset/sent")
    mails()
    [record] = caplog.records
    assert record.getMessage() == "A message could not be sent: OSError"
    assert "ada@" not in caplog.text
