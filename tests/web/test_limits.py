"""Rate limits of pages and of mail; attempts to sign in are limited by address and by account."""

import re

import pytest
from django.core import signing

from apps.site.actions import update_site_settings
from apps.site.limits import MAIL_LIMIT, admits_mail
from apps.site.models import RateLimit
from apps.web import signin
from apps.web.signin import WRONG
from apps.web.templatetags.guildhall import lasting
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient
from tests.web.test_signin import link_in, mails

LOGIN = [("/signin", {"username": "nobody", "password": "wrong"}), ("/reset", {"email": "a@b.org"})]
OWN = ["/settings", "/settings/password"]


def set_rate_limit(rate_scope, max_requests=2):
    RateLimit.objects.filter(scope=rate_scope).delete()
    RateLimit.objects.create(scope=rate_scope, max_requests=max_requests, window_seconds=60)


@pytest.mark.parametrize(("path", "fields"), LOGIN)
def test_attempts_to_sign_in_are_counted_by_address_and_looking_is_free(visit, ada, path, fields):
    set_rate_limit("login")
    for _ in range(3):
        visit().get(path).gives(200)
    for _ in range(2):
        assert visit().post(path, **fields).status in {303, 422}
    refused = visit().post(path, **fields).gives(429)
    seconds = refused.header("Retry-After")
    assert refused.h1 == "Too many attempts" and f"in {lasting(seconds)}" in refused.text
    assert 0 < int(seconds) <= 120
    visit().sign_in("Ada", PASSWORD).gives(429)
    visit().get(path).gives(200)
    visit_from("192.0.2.7").sign_in("Ada").redirects_to("/")


@pytest.mark.parametrize("path", OWN)
def test_wrong_passwords_within_a_session_are_counted_too(visit, ada, path):
    set_rate_limit("login")
    person = visit(ada)
    fields = {"current": "wrong", "password": "x", "again": "x", "email": "x@example.org"}
    for _ in range(2):
        person.post(path, **fields).gives(422)
    person.post(path, **fields).gives(429)
    assert person.is_signed_in


def test_pages_that_nobody_is_signed_in_for_count_for_their_address_with_the_api(
    visit, api, alice, make
):
    repo = make.repo(alice, "open", by=alice, visibility="public")
    set_rate_limit("anonymous", 3)
    path = f"/{repo.path}"
    visit().get(path).gives(200)
    visit().get(f"{path}/threads").gives(200)
    api().get(repo.api_path).fails(401, "not_authenticated")
    refused = visit().get(path).gives(429)
    assert refused.header("X-RateLimit-Resource") == "anonymous"
    assert "Sign in to continue" in refused.text
    assert f"in {lasting(refused.header('Retry-After'))}" in refused.text
    api().get(repo.api_path).fails(429, "rate_limited")
    visit(alice).get(path).gives(200)
    visit_from("192.0.2.7").get(path).gives(200)


@pytest.mark.parametrize("path", ["/signin", "/reset"])
def test_nobody_is_kept_from_signing_in_by_pages_that_were_read_from_their_address(
    visit, ada, path
):
    set_rate_limit("anonymous", 1)
    visit().get("/").gives(200)
    visit().get("/").gives(429)
    for _ in range(3):
        visit().get(path).gives(200)
    visit().sign_in("Ada", PASSWORD).redirects_to("/")


NOT_COUNTED = {"signout", "unsubscribe"}
"""Forms without a rate limit: nobody is kept from signing out or unsubscribing."""


@pytest.fixture
def thread(team_repo, alice, make):
    return make.thread(team_repo, by=alice)


@pytest.mark.parametrize("scope", ["threads", "write", "authenticated", "user:alice"])
def test_a_form_counts_for_its_person_together_with_the_api(scope, visit, api, alice, bob, thread):
    set_rate_limit(scope)
    path, person = f"/{thread.repo.path}/threads/{thread.number}", visit(alice)
    fields = {"kind": "comment", "body": "One."}
    for _ in range(3):
        person.get(path).gives(200)
    person.post(f"{path}/replies", **fields).gives(303)
    of_api = f"{thread.repo.api_path}/threads/{thread.number}/replies"
    api(alice).post(of_api, **fields).gives(201)
    api(alice).post(of_api, **fields).fails(429, "rate_limited")
    person.post(f"{path}/replies", **fields).gives(429)
    visit(bob).post(f"{path}/replies", **fields).gives(303)
    person.get(path).gives(200)
    person.post("/signout").redirects_to("/")
    assert thread.replies.count() == 3


def test_a_form_that_is_one_too_many_gives_back_its_text_and_says_when(visit, alice, thread):
    set_rate_limit("write", 1)
    path, person = f"/{thread.repo.path}/threads/{thread.number}/replies", visit(alice)
    person.post("/settings/tokens", name="laptop", expires_at="30 days").gives(201)
    for body in ("Thanks!", "A longer <b>text</b>."):
        refused = person.post(path, kind="comment", body=body).gives(429)
        assert body in refused.text and "address" not in refused.text
        assert f"in {lasting(refused.header('Retry-After'))}" in refused.text
    sent = {"merge_strategy": "squash", "expected_head_sha": "1" * 40}
    assert "1111" not in person.post(f"/{thread.repo.path}/pulls/1/merge", **sent).gives(429).text
    assert not thread.replies.exists()


def recipients():
    return [message.to[0] for message in mails()]


def ask_for_reset(email, from_address):
    return visit_from(from_address).post("/reset", email=email).redirects_to("/reset/sent")


def test_mail_to_one_person_is_limited_whoever_asks_for_it(ada):
    """The response is the same and reveals nothing."""
    UserFactory.create(username="bob", email="bob@example.org")
    for number in range(MAIL_LIMIT.most + 2):
        ask_for_reset(("ada@example.org", "ADA@example.org")[number % 2], f"192.0.2.{number}")
    ask_for_reset("bob@example.org", "192.0.2.1")
    assert recipients() == ["ada@example.org"] * MAIL_LIMIT.most + ["bob@example.org"]


VICTIM = "ada@example.org"
SPELLINGS = ["Ada+1@example.org", '"ada"@example.org', '"a\\da+2"@example.org']
SPELLINGS += ["ada@ex\uff41mple.org", "ada@EXAMPLE.org"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_spellings_of_an_address_count_for_the_same_mailbox(spelling):
    """Quotes, and letters that are normalized in the domain of an address."""
    for _ in range(MAIL_LIMIT.most):
        assert admits_mail(spelling)
    assert not admits_mail(VICTIM)
    assert admits_mail("bob@example.org") and admits_mail("ada@example.net")


@pytest.mark.parametrize("text", ["", "ada", "a@b@c", "a..b@example.org", "ada@", "@", "\0@x\r\n"])
def test_a_text_that_is_no_address_is_counted_as_it_is(text):
    for _ in range(MAIL_LIMIT.most):
        assert admits_mail(text)
    assert not admits_mail(text)


def test_links_that_confirm_an_address_count_together_with_those_of_resets(visit, ada, alice):
    """Addresses of one mailbox that differ after a `+` count together."""
    alice.set_password(PASSWORD)
    alice.save()
    person, said = visit(alice), set()
    for number in range(MAIL_LIMIT.most + 1):
        email = f"Ada+{number}@example.org"
        fields = {"display_name": "", "email": email, "current": PASSWORD}
        person.post("/settings", **fields).redirects_to("/settings")
        said.add(person.get("/settings").text.replace(email, ""))
    ask_for_reset("ada@example.org", "192.0.2.1")
    assert recipients() == [f"Ada+{number}@example.org" for number in range(MAIL_LIMIT.most)]
    assert len(said) == 1


MOST = 3


def visit_from(address):
    """A client that is not signed in, at this IP address."""
    client = PageClient()
    client.client.defaults["REMOTE_ADDR"] = address
    return client


@pytest.fixture
def stranger(db):
    """`stranger()`: a new browser, at another address each time; each account has `MOST` tries."""
    set_rate_limit("login", MOST)
    numbers = iter(range(1, 255))
    return lambda: visit_from(f"192.0.2.{next(numbers)}")


def use_up(stranger, name):
    """Guess passwords from several addresses until the limit is reached."""
    for number in range(MOST):
        page = stranger().sign_in(name.upper() if number % 2 else name, "wrong").gives(422)
        assert page.alert() == WRONG


def test_guesses_from_many_addresses_are_counted_for_the_account(stranger, ada):
    use_up(stranger, "Ada")
    refused = stranger().sign_in("aDa", PASSWORD).gives(429)
    assert "Too many sign-in attempts" in refused.alert() and refused.value("username") == "aDa"
    assert 0 < int(refused.header("Retry-After")) <= 2 * 15 * 60
    other = UserFactory.create(username="other", clear_password=PASSWORD)
    stranger().sign_in(other.username).redirects_to("/")


def test_a_name_that_nobody_has_is_answered_the_same(stranger, ada):
    said = set()
    for name in ("Ada", "nobody"):
        use_up(stranger, name)
        page = stranger().sign_in(name, "wrong").gives(429)
        said.add(re.sub(r"\d+ s", "", page.alert()))
    assert len(said) == 1


def test_whoever_has_signed_in_before_gets_in_with_the_same_browser(stranger, ada):
    own = stranger()
    own.sign_in("Ada").redirects_to("/")
    own.post("/signout")
    while stranger().sign_in("Ada", "wrong").status != 429:
        pass
    stranger().sign_in("Ada").gives(429)
    own.sign_in("Ada", "wrong").gives(422)
    own.sign_in("Ada").redirects_to("/")


def test_a_known_browser_has_tries_of_its_own_and_no_more(stranger, ada):
    own = stranger()
    own.sign_in("Ada").redirects_to("/")
    own.post("/signout")
    for _ in range(MOST):
        own.client.defaults["REMOTE_ADDR"] = stranger().client.defaults["REMOTE_ADDR"]
        own.sign_in("Ada", "wrong").gives(422)
    own.client.defaults["REMOTE_ADDR"] = "198.51.100.1"
    own.sign_in("Ada").gives(429)
    own.client.defaults["REMOTE_ADDR"] = "198.51.100.2"
    own.sign_in("other", "wrong").gives(422)  # it is not known for other accounts


def test_a_new_password_by_mail_lets_its_person_in(stranger, ada):
    use_up(stranger, "Ada")
    own, new = stranger(), "staple battery horse"
    own.post("/reset", email="ada@example.org").redirects_to("/reset/sent")
    own.post(link_in(mails()[0]), password=new, again=new).redirects_to("/signin")
    own.sign_in("Ada", new).redirects_to("/")
    stranger().sign_in("Ada", new).gives(429)


def test_nobody_makes_themself_known(stranger, ada):
    use_up(stranger, "Ada")
    others = signing.dumps(["other", "x"], salt=signin.KNOWN_SALT)
    texts = ["", "x", signing.dumps(["ada", "x"]), others]
    for text in texts:
        client = stranger()
        client.client.cookies[signin.KNOWN_BROWSER] = text
        client.sign_in("Ada").gives(429)


def test_the_cookie_is_for_signing_in_alone(stranger, ada):
    own = stranger()
    own.sign_in("Ada").redirects_to("/")
    cookie = own.client.cookies[signin.KNOWN_BROWSER]
    assert cookie["httponly"] and (cookie["samesite"], cookie["path"]) == ("Lax", "/signin")
    assert "ada@example.org" not in cookie.value


def test_staff_lifts_it_with_the_limit(stranger, ada, sam):
    update_site_settings(principal=principal_of(sam), rate_limits_enabled=False)
    for _ in range(3 * MOST):
        stranger().sign_in("Ada", "wrong").gives(422)
    stranger().sign_in("Ada").redirects_to("/")
