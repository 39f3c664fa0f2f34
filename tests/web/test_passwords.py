"""`/settings/password`, `/reset` and the mail with its link."""

import re
from threading import get_ident
from urllib.parse import urlencode

import pytest
from django.contrib.auth.hashers import make_password
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

from apps.accounts import actions
from apps.accounts.models import Invite, User
from apps.accounts.proofs import address_proof, proven_address
from apps.core.errors import NotFound
from apps.web import mail as sending
from tests.api import Api
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient

pytestmark = pytest.mark.once

NEW = "new horse, new battery"
SENT = "Check your e-mail"


def change(person, current=PASSWORD, password=NEW, again=NEW):
    fields = {"current": current, "password": password, "again": again}
    return person.post("/settings/password", **fields)


def mails():
    """All messages, after the queue has been sent."""
    sending.SENDER.submit(get_ident).result(timeout=60)
    return mail.outbox


def link_in(message):
    return re.findall(r"http://127.0.0.1:8000(/reset/\S+)", message.body)[0]


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


def test_of_two_who_use_one_link_at_once_one_chooses_the_password(visit, ada, monkeypatch):
    visit().post("/reset", email=ada.email)
    page = visit().get(link_in(mails()[0]))
    sent = {"token": page.value("token")}
    quick = [visit()]

    def hash_late(password):
        if quick:
            quick.pop().post("/reset/new", **sent, password=NEW, again=NEW).redirects_to("/signin")
        return make_password(password)

    monkeypatch.setattr(actions, "make_password", hash_late)
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

    def hash_late(password):
        close_and_open(principal_of(sam), User.objects.get(pk=ada.pk))
        return make_password(password)

    monkeypatch.setattr(actions, "make_password", hash_late)
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
    assert [record.getMessage() for record in caplog.records] == [
        "A message could not be sent: OSError"
    ]
    assert "ada@" not in caplog.text
