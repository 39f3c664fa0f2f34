"""Attempts to sign in are limited per account too, but its person can still sign in."""

from __future__ import annotations

import re

import pytest
from django.core import signing

from apps.site.actions import update_site_settings
from apps.site.models import RateLimit
from apps.web import signin
from apps.web.signin import WRONG
from tests.factories import UserFactory
from tests.principals import principal_of
from tests.web.page_client import PASSWORD, PageClient
from tests.web.test_passwords import link_in, mails

MOST = 3


@pytest.fixture(autouse=True)
def limit(db):
    RateLimit.objects.filter(scope="login").delete()
    RateLimit.objects.create(scope="login", max_requests=MOST, window_seconds=60)


@pytest.fixture
def stranger():
    """`stranger()`: a new browser, at another address each time."""
    numbers = iter(range(1, 255))

    def visit():
        client = PageClient()
        client.client.defaults["REMOTE_ADDR"] = f"192.0.2.{next(numbers)}"
        return client

    return visit


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
