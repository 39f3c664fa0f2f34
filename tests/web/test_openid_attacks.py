"""Attempts to sign in as somebody else by OpenID Connect, and providers that fail."""

import time
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import HMACAlgorithm

from apps.accounts.actions import deactivate_user, delete_user
from apps.accounts.identities import Identity
from apps.accounts.models import User
from apps.accounts.openid import provider as openid
from apps.events.audit import AuditEntry
from apps.site.kinds import RateScope
from tests.openid_provider import CLIENT_ID, Provider, new_key, visit_provider
from tests.principals import principal_of
from tests.web.openid_client import CALLBACK, begin, sign_in
from tests.web.page_client import PASSWORD
from tests.web.test_limits import set_rate_limit

pytestmark = pytest.mark.once


@pytest.fixture
def linked(provider, ada):
    """Ada, whose account is linked to the person of the provider."""
    Identity.objects.create(user=ada, issuer=provider.issuer, subject=provider.person["sub"])
    return ada


def refused(person, path, status=403, text=""):
    """Assert that nobody is signed in, and that the page says why."""
    before = User.objects.count()
    page = person.get(path).gives(status)
    assert text in page.text
    assert page.header("Cache-Control") == "no-store"
    assert not person.is_signed_in
    assert User.objects.count() == before
    return page


# The answer that the browser brings


def changed(path, **parameters):
    query = dict(parse_qsl(urlsplit(path).query)) | parameters
    return f"{CALLBACK}?{urlencode({name: value for name, value in query.items() if value})}"


def test_the_state_is_that_of_this_browser(visit, linked):
    person, victim = visit(), visit()
    path = begin(person)
    refused(victim, path, text="another browser")
    begin(victim)
    refused(victim, path, text="another browser")
    for state in ("wrong", "", "\0"):
        refused(victim, changed(path, state=state), text="another browser")
    person.get(path).redirects_to("/")


def test_an_answer_is_used_once(visit, provider, linked):
    person = visit()
    path = begin(person)
    person.get(path).redirects_to("/")
    person.get(path).gives(403)
    person.post("/signout")
    refused(person, path, text="was used already")
    path = begin(person)
    refused(person, changed(path, code="wrong"), 403)
    refused(person, path, text="was used already")
    refused(person, changed(begin(person), code=""), text="Begin again")


def test_a_sign_in_expires_after_ten_minutes(visit, linked):
    person = visit()
    path = begin(person)
    session = person.client.session
    [row] = session["openid_flows"].values()
    assert 590 < row[1] - time.time() <= 600
    row[1] = time.time() - 1
    session.save()
    refused(person, path, text="expired")


def test_a_signed_in_person_is_neither_replaced_nor_signed_out(visit, provider, linked, alice):
    person = visit(alice)
    person.get("/signin/openid").redirects_to("/signin")
    stolen = begin(visit())
    person.get(stolen).gives(403)
    person.get(f"{CALLBACK}?error=access_denied").gives(403)
    assert person.get("/settings").gives(200).text.count("alice")
    other = visit()
    path = begin(other)
    other.client.force_login(alice)
    other.get(path).gives(403)
    assert not alice.identities.exists()


def test_an_identity_is_not_linked_without_confirming(visit, provider, ada, alice):
    person, thief = visit(ada), visit(alice)
    path = begin(visit())
    person.get(path).gives(403)
    thief.post("/settings/sign-in/link", current="wrong").gives(422)
    thief.get("/signin/openid?purpose=link").redirects_to("/settings/sign-in/link")
    thief.get("/signin/openid?purpose=other").redirects_to("/signin")
    visit().get("/signin/openid?purpose=link").redirects_to("/signin")
    assert not Identity.objects.exists()


@pytest.mark.parametrize(
    "goal", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_nobody_is_redirected_to_another_host(visit, linked, goal):
    sign_in(visit(), next=goal).redirects_to("/")


def test_the_address_of_this_site_is_not_that_of_the_request(visit, provider, settings):
    settings.ALLOWED_HOSTS = ["*"]
    response = visit().get("/signin/openid", host="evil.example").gives(302)
    query = parse_qs(urlsplit(response.header("Location")).query)
    assert query["redirect_uri"] == [f"http://127.0.0.1:8000{CALLBACK}"]
    assert len(query["code_challenge"][0]) == 43 and query["code_challenge_method"] == ["S256"]
    assert len(query["nonce"][0]) == len(query["state"][0]) == 32


def test_errors_of_the_provider_are_words_of_ours(visit, provider, linked):
    person = visit()
    script = "<script>alert(1)</script>"
    for error, text in (("access_denied", "cancelled"), (script, "reports an error")):
        path = changed(begin(person), code="", error=error, error_description=script)
        page = refused(person, path, text=text)
        assert "alert(1)" not in page.html
        refused(person, path, text="used already")
    refused(person, f"{CALLBACK}?error=access_denied&state=wrong", text="another browser")


@pytest.mark.parametrize("announced", [False, True])
def test_the_answer_of_another_issuer_is_refused(visit, provider, linked, announced):
    provider.metadata["authorization_response_iss_parameter_supported"] = announced
    person = visit()
    for issuer in ("https://evil.example", f"{provider.issuer}/", "é"):
        refused(person, changed(begin(person), iss=issuer), text="not from the provider")
    if announced:
        refused(person, changed(begin(person), iss=""), text="not from the provider")
    assert "/token" not in provider.requests
    sign_in(person).redirects_to("/")


def test_attempts_count_for_the_limit_of_sign_ins(visit, provider):
    set_rate_limit(RateScope.LOGIN, 2)
    person = visit()
    person.get("/signin/openid").gives(302)
    person.get(CALLBACK).gives(403)
    person.get("/signin/openid").gives(429)
    person.get(CALLBACK).gives(429)


# The token that the provider sends


def unsigned(provider, claims):
    return jwt.encode(claims, "", "none", headers=provider.header)


def by_public_key(provider, claims):
    """Signed with the public key as the secret. PyJWT refuses to make such a token itself."""
    public = provider.key.public_key()
    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    begun = jwt.encode(claims, "x" * 32, "HS256", headers=provider.header).rpartition(".")[0]
    signature = HMACAlgorithm(HMACAlgorithm.SHA256).sign(begun.encode(), text)
    return f"{begun}.{jwt.utils.base64url_encode(signature).decode()}"


def by_client_secret(provider, claims):
    return jwt.encode(claims, "not a: secret%".ljust(32, "%"), "HS256", headers=provider.header)


def by_wrong_key(provider, claims):
    return jwt.encode(claims, new_key(1), "RS256", headers=provider.header)


def by_own_key(provider, claims):
    """Signed by the key that the token itself brings."""
    key = jwt.algorithms.RSAAlgorithm.to_jwk(new_key(1).public_key(), as_dict=True)
    return jwt.encode(claims, new_key(1), "RS256", headers={**provider.header, "jwk": key})


def by_unknown_key(provider, claims):
    return jwt.encode(claims, provider.key, "RS256", headers={"kid": "second"})


def by_unlisted_algorithm(provider, claims):
    provider.key_fields = {}
    return jwt.encode(claims, provider.key, "RS384", headers=provider.header)


def without_signature(provider, claims):
    return (
        f"{jwt.encode(claims, provider.key, 'RS256', headers=provider.header).rpartition('.')[0]}."
    )


def no_token(provider, claims):
    return "a.b.c"


SIGNERS = [unsigned, by_public_key, by_client_secret, by_wrong_key, by_own_key, by_unknown_key]
SIGNERS += [by_unlisted_algorithm, without_signature, no_token]


@pytest.mark.parametrize("signer", SIGNERS)
def test_a_token_is_signed_by_a_key_of_the_provider(visit, provider, linked, signer):
    usual = provider.sign
    provider.sign = lambda claims: signer(provider, claims)
    refused(visit(), begin(person := visit()), text="another browser")
    refused(person, begin(person), 403, "invalid answer")
    assert AuditEntry.objects.get().data == {"reason": "single_sign_on"}
    provider.sign = usual
    sign_in(person).redirects_to("/")
    assert AuditEntry.objects.latest("pk").kind == "signed-in"


@pytest.mark.parametrize("fields", [{"use": "enc"}, {"alg": "PS256"}, {"kty": "EC"}, {"n": "!"}])
def test_a_key_is_used_for_its_own_purpose(visit, provider, linked, fields):
    provider.key_fields = fields
    person = visit()
    refused(person, begin(person), 403, "invalid answer")


def test_a_token_without_a_key_id_needs_a_single_key(visit, provider, linked):
    provider.header = {}
    sign_in(visit()).redirects_to("/")
    openid.provider.cache_clear()
    one, two = (provider.key_set()["keys"][0] | {"kid": name} for name in ("a", "b"))
    person = visit()
    path = begin(person)
    provider.answers["/jwks"] = (200, {"keys": [one, two]})
    refused(person, path, 403, "invalid answer")


PAST, FUTURE = 1_700_000_000, 4_000_000_000
"""Seconds: in 2023, and in 2096."""


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "wrong"},
        {"nonce": None},
        {"nonce": 7},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": ["other"]},
        {"aud": None},
        {"aud": [CLIENT_ID, "other"]},
        {"aud": [CLIENT_ID, "other"], "azp": "other"},
        {"azp": "other"},
        {"exp": PAST},
        {"exp": None},
        {"iat": FUTURE},
        {"nbf": FUTURE},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "a\0b"},
        {"sub": "a" * 256},
    ],
    ids=str,
)
def test_a_token_is_for_this_client_and_this_sign_in(visit, provider, linked, claims):
    provider.claims = claims
    person = visit()
    refused(person, begin(person), 403, "invalid answer")


def test_a_token_for_several_clients_names_this_one(visit, provider, linked):
    provider.claims = {"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID}
    sign_in(visit()).redirects_to("/")


def test_the_nonce_of_another_sign_in_is_refused(visit, provider, linked):
    """A code that was issued to somebody else is injected, with a nonce that is not ours."""
    person, victim = visit(), visit()
    stolen = dict(parse_qsl(urlsplit(begin(victim)).query))["code"]
    path = changed(begin(person), code=stolen)
    refused(person, path, 403)  # PKCE: the verifier is another
    provider.grants = {code: grant | {"nonce": "n" * 32} for code, grant in provider.grants.items()}
    path = begin(person)
    for grant in provider.grants.values():
        grant["nonce"] = "n" * 32
    refused(person, path, 403)


def test_a_new_key_of_the_provider_is_read_once_a_minute(visit, provider, linked, monkeypatch):
    person = visit()
    sign_in(person).redirects_to("/")
    person.post("/signout")
    provider.key = new_key(1)
    refused(person, begin(person), 403)
    provider.header = {"kid": "second"}
    refused(person, begin(person), 403)
    assert provider.requests.count("/jwks") == 1
    monkeypatch.setattr(openid, "KEYS_AGAIN_SECONDS", 0)
    provider.key_fields["kid"] = "second"
    sign_in(person).redirects_to("/")
    assert provider.requests.count("/jwks") == 2


# The account


@pytest.mark.parametrize("verified", [True, False, None, "true", 1])
def test_an_address_never_leads_to_an_account(visit, provider, ada, verified):
    provider.person |= {"email": "ADA@example.org", "email_verified": verified}
    person = visit()
    sign_in(person).redirects_to("/")
    user = Identity.objects.get().user
    assert user != ada and user.email == ""
    assert ("Another account has your" in person.get("/settings").text) == (verified is True)


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_unverified_address_does_not_count(visit, provider, verified):
    provider.person |= {"email": "new@example.org", "email_verified": verified}
    sign_in(visit()).redirects_to("/")
    assert User.objects.get().email == ""


def test_a_username_never_leads_to_an_account(visit, provider, ada):
    provider.person["preferred_username"] = "Ada"
    sign_in(visit()).redirects_to("/")
    assert Identity.objects.get().user.username == "Ada-2"


@pytest.mark.parametrize("subject", ["0002", "0001 ", "O001"])
def test_a_renamed_subject_is_another_person(visit, provider, linked, subject):
    provider.person["sub"] = subject
    sign_in(visit()).redirects_to("/")
    assert not linked.identities.filter(subject=subject).exists()
    assert Identity.objects.exclude(user=linked).count() == 1


def test_subjects_differ_by_case(visit, provider, ada):
    Identity.objects.create(user=ada, issuer=provider.issuer, subject="abc")
    provider.person["sub"] = "ABC"
    sign_in(visit()).redirects_to("/")
    assert Identity.objects.get(subject="ABC").user != ada


def test_the_same_subject_of_another_issuer_is_another_person(visit, provider, linked, settings):
    with Provider() as other:
        settings.OIDC_ISSUER = other.issuer
        sign_in(visit()).redirects_to("/")
    assert Identity.objects.get(issuer=other.issuer).user != linked


def test_a_deactivated_person_does_not_come_back_in(visit, provider, linked, sam, events):
    deactivate_user(principal=principal_of(sam), user=linked)
    person = visit()
    with events():
        refused(person, begin(person), text="deactivated")
    provider.person["groups"] = ["admins"]
    refused(person, begin(person), text="deactivated")
    refusals = AuditEntry.objects.filter(kind="sign-in-refused", person_id=linked.pk)
    assert [entry.data for entry in refusals] == [{"reason": "inactive_account"}] * 2
    assert not User.objects.get(pk=linked.pk).is_active


def test_a_deleted_person_does_not_come_back_in(visit, provider, linked):
    delete_user(principal=principal_of(linked), user=linked, confirm="Ada")
    person = visit()
    refused(person, begin(person), text="deactivated")


def test_a_password_form_does_not_use_a_code(visit, provider, linked):
    """The backend of OpenID Connect is asked for passwords too: it must not look at the address."""
    person = visit()
    query = begin(person).partition("?")[2]
    person.post(f"/signin?{query}", username="Ada", password="wrong").gives(422)
    assert not person.is_signed_in
    assert "/token" not in provider.requests
    person.sign_in("Ada", PASSWORD).redirects_to("/")


# Providers that fail


def test_huge_answers_are_not_read(visit, provider, linked, caplog):
    person = visit()
    huge = b" " * (openid.BODY_BYTES + 1)
    for path in ("/.well-known/openid-configuration", "/jwks", "/token"):
        openid.provider.cache_clear()
        url = f"{provider.issuer}{path}"
        begun = begin(person) if "well" not in path else "/signin/openid"
        if path == "/jwks":
            openid.provider.cache_clear()
        provider.answers = {path: (200, huge)}
        refused(person, begun, 403, "invalid answer")
        assert f"more than {openid.BODY_BYTES} bytes from {url}" in caplog.text
        provider.answers = {}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
def test_a_slow_provider_is_given_up(visit, provider, linked, monkeypatch, path):
    person = visit()
    begun = begin(person)
    monkeypatch.setattr(openid, "DEADLINE", 0.2)
    openid.provider.cache_clear()
    provider.answers = {path: None}
    refused(person, begun, 502, "does not answer")


def test_a_provider_that_is_down_is_not_asked_by_everybody(visit, provider, settings, monkeypatch):
    person = visit()
    begun = begin(person)
    provider.answers = {"/.well-known/openid-configuration": (503, {})}
    openid.provider.cache_clear()
    for path in ("/signin/openid", begun, "/signin/openid"):
        refused(person, path, 502, "does not answer")
    assert provider.requests.count("/.well-known/openid-configuration") == 2
    settings.OIDC_ISSUER = "http://127.0.0.1:9"
    refused(person, "/signin/openid", 502, "does not answer")
    assert person.get("/signin").gives(200).html.count("/signin/openid")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'"text"',
        b"{" * 100_000,
        b"[" * 100_000,
        b"\xff",
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://sso.example.org/?p=1"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "ftp://sso.example.org/token"},
        {"jwks_uri": "https://[::1"},
        {"jwks_uri": ["https://sso.example.org"]},
        {"id_token_signing_alg_values_supported": ["none", "HS256"]},
    ],
    ids=lambda answer: repr(answer)[:40],
)
def test_invalid_metadata_are_refused(visit, provider, answer):
    path = "/.well-known/openid-configuration"
    body = answer if isinstance(answer, bytes) else provider.discovery() | answer
    provider.answers[path] = (200, body)
    refused(visit(), "/signin/openid", 403, "invalid answer")


def test_redirects_of_the_provider_are_not_followed(visit, provider, linked):
    person = visit()
    path = begin(person)
    provider.answers["/token"] = (302, {}, f"{provider.issuer}/jwks")
    refused(person, path, 403)
    assert "/jwks" not in provider.requests


def test_a_code_alone_is_worth_nothing(visit, provider, linked):
    """Without the browser that began, and without its session, a stolen address signs nobody in."""
    person = visit()
    response = person.get("/signin/openid").gives(302)
    address = visit_provider(response.header("Location"))
    person.client.cookies.clear()
    refused(person, urlsplit(address)._replace(scheme="", netloc="").geturl())
