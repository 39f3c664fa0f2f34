"""Passkeys: with an authenticator in Python for hostile answers, and in a real Chromium."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import urlsplit

import cbor2
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.core import mail
from django_otp.oath import TOTP
from playwright.sync_api import expect

from apps.accounts.factors import Passkey
from apps.accounts.principal import Principal
from apps.accounts.second_factors import actions
from apps.core.mail import SENDER
from apps.core.views import site_url
from apps.events.audit import AuditEntry
from tests.factories import UserFactory
from tests.web.chromium import chromium, new_page, violations
from tests.web.live_site import DATA
from tests.web.page_client import PASSWORD
from tests.web.test_browser import EXCESS_WIDTH, NARROW, TAGS

PATH = "/settings/second-factor/passkeys"


def base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


class SoftKey:
    """A security key in Python, which signs whatever it is told."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id, self.count = os.urandom(16), 0

    def create(self, options: str, origin: str = "", *, lacks: int = 0) -> str:
        """The browser's answer to the options of a new passkey, whose key lacks a part."""
        numbers = self.key.public_key().public_numbers()
        points = {-2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        parts = {1: 2, 3: -7, -1: 1, **points}
        parts.pop(lacks, None)
        key = cbor2.dumps(parts)
        data = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + key
        attestation = {"fmt": "none", "attStmt": {}, "authData": self.data(0x41) + data}
        answer = {
            "clientDataJSON": base64url(self.client("webauthn.create", options, origin)),
            "attestationObject": base64url(cbor2.dumps(attestation)),
        }
        return self.answer(answer)

    def sign(self, options: str, origin: str = "") -> str:
        """The browser's answer to the options of a sign-in."""
        self.count += 1
        data, client = self.data(0x01), self.client("webauthn.get", options, origin)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {"authenticatorData": data, "clientDataJSON": client, "signature": signature}
        return self.answer({name: base64url(raw) for name, raw in answer.items()})

    def data(self, flags: int) -> bytes:
        host = str(urlsplit(site_url()).hostname)
        hashed = hashlib.sha256(host.encode()).digest()
        return hashed + bytes([flags]) + self.count.to_bytes(4, "big")

    def client(self, kind: str, options: str, origin: str) -> bytes:
        challenge = json.loads(options)["challenge"]
        values = {"type": kind, "challenge": challenge, "origin": origin or site_url()}
        return json.dumps(values).encode()

    def answer(self, response: dict[str, str]) -> str:
        name = base64url(self.id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})


def turn_on(person, key="00" * 20):
    """Give the person an app; returns the recovery codes."""
    code = f"{TOTP(bytes.fromhex(key)).token():06}"
    return actions.turn_on(principal=Principal(person), key=key, code=code)


def options_of(page):
    return page.find(r'data-options="([^"]*)"')


@pytest.fixture
def with_key(visit, ada):
    """Ada with an app and a passkey, which is `ada.passkey`."""
    ada.codes, ada.passkey = turn_on(ada), SoftKey()
    add(visit(ada), ada, ada.passkey)
    return ada


def add(client, person, passkey):
    fields = {"name": "Key", "current": PASSWORD, "code": person.codes.pop()}
    options = options_of(client.post(PATH, **fields).gives(200))
    client.post(f"{PATH}/create", credential=passkey.create(options)).redirects_to(
        "/settings/second-factor"
    )
    return options


@pytest.fixture
def waiting(visit, with_key):
    """A browser in which Ada's password was given."""
    person = visit()
    person.sign_in("Ada", next="/inbox").redirects_to("/signin/code")
    return person


@pytest.mark.once
def test_a_passkey_is_added_and_removed(visit, ada, django_capture_on_commit_callbacks):
    visit(ada).get(PATH).redirects_to("/settings/second-factor")
    ada.codes, person = turn_on(ada), visit(ada)
    mail.outbox.clear()
    person.get(PATH).gives(200)
    person.post(PATH, name="Key", current="wrong", code=ada.codes[0]).gives(422)
    person.post(PATH, name="Key", current=PASSWORD, code="000000").gives(422)
    with django_capture_on_commit_callbacks(execute=True):
        add(person, ada, SoftKey())
        page = person.get("/settings/second-factor")
        assert "Key added" in page.text and "never used" in page.text
        remove = page.find(r'href="([^"]*/remove)">Remove')
        person.get(remove).gives(200)
        person.post(remove).redirects_to("/settings/second-factor")
    assert not Passkey.objects.exists()
    entries = AuditEntry.objects.order_by("-id")[:2]
    assert [entry.data["changed"] for entry in entries] == [["passkeys"], ["passkeys"]]
    SENDER.submit(int).result(timeout=60)
    subjects = [message.subject for message in mail.outbox]
    assert [text.partition(": ")[2] for text in subjects[1:]] == [
        "a passkey was added",
        "a passkey was removed",
    ]


@pytest.mark.once
def test_a_passkey_of_another_page_or_challenge_is_not_added(visit, ada):
    ada.codes, person = turn_on(ada), visit(ada)

    def ask():
        fields = {"name": "Key", "current": PASSWORD, "code": ada.codes.pop()}
        return options_of(person.post(PATH, **fields).gives(200))

    first = ask()
    second = ask()
    person.post(f"{PATH}/create", credential=SoftKey().create(first)).gives(422)
    # a challenge is gone after one answer
    person.post(f"{PATH}/create", credential=SoftKey().create(second)).redirects_to(PATH)
    evil = SoftKey().create(ask(), "https://evil.example")
    person.post(f"{PATH}/create", credential=evil).gives(422)
    for text in ("{}", "x", "[]", '{"id": 1}'):
        ask()
        person.post(f"{PATH}/create", credential=text).gives(422)
    person.post(f"{PATH}/create", credential=SoftKey().create(ask(), lacks=-3)).gives(422)
    assert not Passkey.objects.exists()


@pytest.mark.once
def test_a_passkey_signs_in(waiting, with_key):
    page = waiting.get("/signin/code")
    assert "passkeys" in page.html
    answer = with_key.passkey.sign(options_of(page))
    waiting.post("/signin/code", credential=answer).redirects_to("/inbox")
    assert waiting.is_signed_in
    assert Passkey.objects.get().last_used_at is not None


@pytest.mark.once
def test_an_answer_is_used_once(visit, waiting, with_key):
    options = options_of(waiting.get("/signin/code"))
    answer = with_key.passkey.sign(options)
    waiting.get("/signin/code")  # another challenge
    waiting.post("/signin/code", credential=answer).gives(200)
    assert not waiting.is_signed_in
    answer = with_key.passkey.sign(options_of(waiting.get("/signin/code")))
    waiting.post("/signin/code", credential=answer).redirects_to("/inbox")
    other = visit()
    other.sign_in("Ada")
    other.get("/signin/code")
    other.post("/signin/code", credential=answer).gives(200)
    other.post("/signin/code", credential="{}").gives(200)
    assert not other.is_signed_in


@pytest.mark.once
def test_a_passkey_of_another_account_or_site_is_refused(visit, waiting, with_key):
    eve: Any = UserFactory.create(username="Eve", clear_password=PASSWORD)
    eve.codes, key = turn_on(eve, "11" * 20), SoftKey()
    add(visit(eve), eve, key)
    for passkey, origin in ((key, ""), (SoftKey(), ""), (with_key.passkey, "https://evil.example")):
        answer = passkey.sign(options_of(waiting.get("/signin/code")), origin)
        assert "not accepted" in waiting.post("/signin/code", credential=answer).gives(200).text
    copied = with_key.passkey
    Passkey.objects.filter(user=with_key).update(sign_count=9)
    answer = copied.sign(options_of(waiting.get("/signin/code")))
    waiting.post("/signin/code", credential=answer).gives(200)
    assert not waiting.is_signed_in


@pytest.mark.once
def test_the_passkey_of_an_account_is_added_once(visit, with_key):
    person = visit(with_key)
    fields = {"name": "Again", "current": PASSWORD, "code": with_key.codes.pop()}
    options = options_of(person.post(PATH, **fields).gives(200))
    assert base64url(with_key.passkey.id) in options  # the browser refuses it
    person.post(f"{PATH}/create", credential=with_key.passkey.create(options)).gives(422)


PREPARE = """
from apps.accounts.factors import Authenticator, RecoveryCode
from apps.accounts.models import User
from apps.accounts.second_factors.codes import recovery_digest
ada = User.objects.get(username="ada")
User.objects.filter(pk=ada.pk).update(has_second_factor=True)
Authenticator.objects.create(user=ada, key="00" * 20)
for code in ("aaaa", "bbbb"):
    RecoveryCode.objects.create(user=ada, digest=recovery_digest(code))
"""
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "usb",
    "hasResidentKey": False,
    "hasUserVerification": False,
    "automaticPresenceSimulation": True,
}


@pytest.mark.browser
@pytest.mark.once
def test_a_browser_creates_a_passkey_and_signs_in_with_it(new_server, tmp_path):
    with new_server(tmp_path) as server, chromium(tmp_path) as browser:
        server.run(DATA)
        server.run(PREPARE)
        use_host_name(server)
        with new_page(browser, server.url) as page:
            devtools = page.context.new_cdp_session(page)
            devtools.send("WebAuthn.enable")
            devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
            give_password(page)
            page.fill("[name=code]", "aaaa")
            page.keyboard.press("Enter")
            expect(page).to_have_url(f"{server.url}/")
            page.goto(PATH)
            page.fill("[name=name]", "Key")
            page.fill("[name=current]", PASSWORD)
            page.fill("[name=code]", "bbbb")
            check(page)
            page.keyboard.press("Enter")
            expect(page.get_by_role("button", name="Create passkey")).to_be_visible()
            check(page)
            page.get_by_role("button", name="Create passkey").click()
            expect(page.get_by_text("Passkey Key added.")).to_be_visible()
            check(page)
            page.context.clear_cookies()
            give_password(page)
            expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
            check(page)
            page.get_by_role("button", name="Use a passkey").click()
            expect(page).to_have_url(f"{server.url}/")


def check(page):
    """axe finds nothing, and the page fits into a narrow window."""
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert violations(page, TAGS) == []
    assert page.evaluate(EXCESS_WIDTH) == 0


def use_host_name(server):
    """Start the server again as `localhost`: there are no passkeys of addresses."""
    port = server.url.rpartition(":")[2]
    server.kill()
    server.environment |= {"PORT": port, "BASE_URL": f"http://localhost:{port}"}
    server.start()
    server.url = server.environment["BASE_URL"]


def give_password(page):
    page.goto("/signin")
    page.fill("[name=username]", "ada")
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
