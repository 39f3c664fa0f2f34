"""Who tries too often to get in is told when to come back; the scopes `login` and `signup`."""

import pytest

from apps.site.models import RateLimit
from tests.web.page_client import PASSWORD, PageClient

LOGIN = [("/signin", {"username": "Ada", "password": "wrong"}), ("/reset", {"email": "a@b.org"})]
OWN = ["/settings", "/settings/password"]


def limited(scope, most=2):
    RateLimit.objects.filter(scope=scope).delete()
    RateLimit.objects.create(scope=scope, max_requests=most, window_seconds=60)


@pytest.mark.parametrize(("path", "fields"), LOGIN)
def test_tries_to_sign_in_are_counted_by_address_and_looking_is_free(visit, ada, path, fields):
    limited("login")
    for _ in range(3):
        visit().get(path).gives(200)
    for _ in range(2):
        assert visit().post(path, **fields).status in {303, 422}
    refused = visit().post(path, **fields).gives(429)
    seconds = refused.header("Retry-After")
    assert refused.h1 == "Too many attempts" and f"in {seconds} second" in refused.text
    assert 0 < int(seconds) <= 120
    visit().sign_in("Ada", PASSWORD).gives(429)
    visit().get(path).gives(200)
    elsewhere = PageClient()
    elsewhere.client.defaults["REMOTE_ADDR"] = "192.0.2.7"
    elsewhere.sign_in("Ada").leads("/")


@pytest.mark.parametrize("path", OWN)
def test_guesses_at_a_password_from_inside_a_session_are_counted_too(visit, ada, path):
    limited("login")
    person = visit(ada)
    fields = {"current": "wrong", "password": "x", "again": "x", "email": "x@example.org"}
    for _ in range(2):
        person.post(path, **fields).gives(422)
    person.post(path, **fields).gives(429)
    assert person.is_signed_in
