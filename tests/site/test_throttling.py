"""Which rate limits count which requests, and the headers of answers."""

import time

import pytest
from django.test import RequestFactory, override_settings

from apps.core.errors import TooMany
from apps.events.views import TailViewSet
from apps.site.actions import create_rate_limit, update_site_settings
from apps.site.kinds import RateScope
from apps.site.limits import throttle_page
from tests.factories import UserFactory
from tests.site.fresh import first_rate_limits

HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]
OWN = "/api-tokens/self"
DAY = 86_400
"""A window that rarely ends during a test; then the older part still counts."""


@pytest.fixture
def limit(db):
    """`limit("write", 2)`: two requests in a day."""

    def make(scope, most, seconds=DAY):
        return create_rate_limit(
            principal=None, scope=scope, max_requests=most, window_seconds=seconds, is_enabled=True
        )

    return make


def left(answer):
    """`(resource, remaining)` of an answer; None without headers of a limit."""
    found = answer.response.headers
    if "X-RateLimit-Resource" not in found:
        return None
    return found["X-RateLimit-Resource"], int(found["X-RateLimit-Remaining"])


def test_nothing_is_limited_on_a_fresh_install(api, alice):
    assert left(api(alice).get(OWN)) is None
    assert left(api().get("/openapi.json")) is None


def test_the_headers_count_down_to_a_429_that_says_when_to_come_back(api, alice, limit):
    limit("authenticated", 2)
    answers = [api(alice).get(OWN) for _ in range(3)]
    assert [left(one) for one in answers] == [("authenticated", n) for n in (1, 0, 0)]
    assert [one.status for one in answers] == [200, 200, 429]
    assert "authenticated" in answers[2].fails(429, "rate_limited")
    assert 0 < int(answers[2].header("Retry-After")) <= 2 * DAY
    for one in answers:
        assert one.header("X-RateLimit-Limit") == "2"
        assert time.time() < int(one.header("X-RateLimit-Reset")) <= time.time() + 2 * DAY


def test_people_are_counted_apart_and_staff_like_others(api, alice, bob, sam, limit):
    limit("api", 1)
    for person in (alice, bob, sam):
        api(person).get(OWN).gives()
        api(person).get(OWN).fails(429, "rate_limited")
    api().get("/openapi.json").gives()
    api().get("/openapi.json").fails(429, "rate_limited")


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ("api", [True, True, True, True, True]),
        ("authenticated", [True, True, True, True, False]),
        ("user:Alice", [True, True, True, True, False]),
        ("anonymous", [False, False, False, False, True]),
        ("write", [False, True, False, False, False]),
        ("teams", [True, True, False, False, False]),
        ("events", [False, False, True, True, False]),
        ("stream", [False, False, False, True, False]),
        ("git", [False] * 5),
        ("meta", [False, False, False, False, True]),
    ],
)
def test_each_scope_counts_what_it_is_about(scope, counts, api, limit):
    alice = UserFactory.create(username="Alice")
    limit(scope, 1000)
    sent = [
        api(alice).get("/teams"),
        api(alice).post("/teams", name="Acme", slug="acme"),
        api(alice).get("/events?scope=self"),
        api(alice).send("HEAD", "/tail-events?scope=self"),
        api().get("/openapi.json"),
    ]
    assert [left(one) is not None for one in sent] == counts


def test_a_limit_of_ones_own_replaces_that_of_everybody(api, alice, bob, limit):
    limit("authenticated", 1)
    limit("user:alice", 3)
    assert [left(api(alice).get(OWN)) for _ in range(3)] == [("user:alice", n) for n in (2, 1, 0)]
    api(alice).get(OWN).fails(429, "rate_limited")
    assert left(api(bob).get(OWN)) == ("authenticated", 0)


def test_the_tightest_of_several_is_shown_and_a_refusal_uses_none_up(api, alice, limit):
    limit("api", 10)
    limit("write", 1)
    assert left(api(alice).get(OWN)) == ("api", 9)
    assert left(api(alice).post("/teams", name="A", slug="aa")) == ("write", 0)
    for _ in range(3):
        refused = api(alice).post("/teams", name="B", slug="bb")
        refused.fails(429, "rate_limited")
        assert left(refused) == ("write", 0)
    assert left(api(alice).get(OWN)) == ("api", 7)


def test_what_is_refused_later_is_counted_and_says_so(api, alice, limit):
    limit("api", 100)
    client = api(alice)
    sent = [
        client.get("/teams/nowhere"),
        client.post("/teams", name=5),
        client.send("POST", "/teams", b"{"),
        client.get("/events?scope=site"),
        client.get("/teams"),
    ]
    assert [one.status for one in sent] == [404, 422, 400, 403, 200]
    assert [left(one) for one in sent] == [("api", n) for n in (99, 98, 97, 96, 95)]


def test_429_comes_after_401_and_before_all_else(api, alice, limit):
    limit("api", 1)
    api(alice).get("/teams/nowhere").fails(404, "not_found")
    api(alice).get("/teams/nowhere").fails(429, "rate_limited")
    api(alice).delete("/openapi.json").fails(405, "method_not_allowed")


def test_guessing_tokens_ends_in_429_and_shuts_nobody_else_out(api, alice, limit):
    limit("anonymous", 2)
    guess = api()
    guess.headers = {"Authorization": "Bearer ght_wrong"}
    assert left(guess.get(OWN)) == ("anonymous", 1)
    api().get(OWN).fails(401, "not_authenticated")
    guess.get(OWN).fails(429, "rate_limited")
    guess.get("/openapi.json").fails(429, "rate_limited")
    assert left(api(alice).get(OWN)) is None


def test_staff_is_never_locked_out_of_the_limits(api, alice, sam, limit):
    for scope in ("api", "write", "rate-limits", "site-settings", "user:sam"):
        made = limit(scope, 1)
    api(sam).get(OWN).gives()
    api(sam).get(OWN).fails(429, "rate_limited")
    for _ in range(3):
        assert left(api(sam).get("/rate-limits")) is None
        api(sam).put("/site-settings", signups_enabled=True).gives()
    api(alice).get("/site-settings").gives()
    api(alice).get("/site-settings").fails(429, "rate_limited")
    api(sam).delete(f"/rate-limits/{made.uuid}").gives(204)


def test_the_switch_of_the_site_lifts_all_limits(api, alice, limit):
    limit("api", 1)
    api(alice).get(OWN).gives()
    api(alice).get(OWN).fails(429, "rate_limited")
    update_site_settings(principal=None, rate_limits_enabled=False)
    assert left(api(alice).get(OWN)) is None
    update_site_settings(principal=None, rate_limits_enabled=True)
    api(alice).get(OWN).fails(429, "rate_limited")


def test_a_change_holds_from_the_next_request_on(api, alice, sam, limit):
    path = f"/rate-limits/{limit('api', 1).uuid}"
    api(alice).get(OWN).gives()
    api(alice).get(OWN).fails(429, "rate_limited")
    api(sam).put(path, max_requests=3).gives()
    assert left(api(alice).get(OWN)) == ("api", 1)
    api(sam).put(path, is_enabled=False).gives()
    assert left(api(alice).get(OWN)) is None
    api(sam).put(path, is_enabled=True, scope="teams").gives()
    assert left(api(alice).get("/teams")) == ("teams", 2)
    api(sam).delete(path).gives(204)
    assert left(api(alice).get("/teams")) is None


def test_the_addresses_of_anonymous_people_are_counted_apart(client, limit):
    limit("anonymous", 1)

    def status(address, **headers):
        return client.get("/api/v1/openapi.json", REMOTE_ADDR=address, headers=headers).status_code

    assert [status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2")] == [200, 429, 200]
    assert [status("2001:db8::1"), status("2001:db8::2")] == [200, 429]
    lying = {"X-Forwarded-For": "203.0.113.9"}
    assert status("192.0.2.1", **lying) == 429
    with override_settings(TRUSTED_PROXIES=1):
        assert [status("192.0.2.1", **lying) for _ in range(2)] == [200, 429]


def test_a_page_counts_by_address_and_says_how_long_to_wait(db):
    first_rate_limits()
    request = RequestFactory().post("/signin")
    for _ in range(20):
        throttle_page(request, RateScope.LOGIN)
    with pytest.raises(TooMany) as refused:
        throttle_page(request, RateScope.LOGIN)
    assert refused.value.code == "rate_limited"
    assert 0 < int(refused.value.headers["Retry-After"]) <= 120
    throttle_page(request, RateScope.SIGNUP)
    throttle_page(RequestFactory(REMOTE_ADDR="192.0.2.7").post("/signin"), RateScope.LOGIN)


def test_the_stream_declares_its_scope():
    assert TailViewSet.rate_scopes == (RateScope.STREAM,)
