"""Valid keys, their scope, how long answers are stored, and answers that are not stored."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db.models import F

from apps.accounts.models import ApiToken
from apps.idempotency.jobs import forget_old_requests
from apps.idempotency.models import KeyedRequest
from apps.site.actions import create_rate_limit
from apps.site.models import SiteSettings
from apps.teams.models import Member, Team
from tests.api import Api
from tests.factories import MemberFactory, UserFactory
from tests.principals import principal_of

KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
ACME = {"name": "Acme", "slug": "acme"}


def pass_time(**time):
    """Let this much time pass for all requests with a key."""
    ago = dt.timedelta(**time)
    KeyedRequest.objects.update(
        created_at=F("created_at") - ago, leased_until=F("leased_until") - ago
    )


def replayed(answer) -> bool:
    return "Idempotency-Replayed" in answer.response.headers


WRONG = ["", "a" * 256, "ä", "a\tb", '"', '""', '"a', '"a"b', '"a\\b"', f'"{"a" * 256}"']
WRONG += ['"a", "b"']


@pytest.mark.parametrize("key", WRONG)
def test_a_key_that_is_none_is_refused_and_nothing_is_done(api, alice, key):
    detail = api(alice).post_once(key, "/teams", **ACME).fails(422, "validation_failed")
    assert detail.startswith("Idempotency-Key: ")
    assert not Team.objects.exists()
    assert not KeyedRequest.objects.exists()


SAME = {
    "abc": '"abc"',
    "a": "a",
    "a" * 255: f'"{"a" * 255}"',
    'say "a" b\\c': '"say \\"a\\" b\\\\c"',
    "!#~ ~": "!#~ ~",
}


@pytest.mark.parametrize("bare", SAME)
def test_a_key_is_the_same_with_and_without_quotes(api, alice, bare):
    made = api(alice).post_once(bare, "/teams", **ACME).gives(201)
    assert api(alice).post_once(SAME[bare], "/teams", **ACME).gives(201) == made


def test_equal_json_is_the_same_body_and_anything_else_another(api, alice, events):
    with events("team-created"):
        api(alice).post_once(KEY, "/teams", **ACME).gives(201)
        turned = b'{ "slug" : "acme",\n"name": "Acme" }'
        again = api(alice).send("POST", "/teams", turned, {"Idempotency-Key": KEY})
        assert replayed(again)
        other = api(alice).post_once(KEY, "/teams", name="Acme", slug="acme-2")
        assert "Use a new one" in other.fails(422, "idempotency_mismatch")
        assert replayed(api(alice).post_once(KEY, "/teams", **ACME))


def test_what_is_wrong_with_the_body_itself_is_said_first_and_uses_no_key_up(api, alice):
    api(alice).post_once(KEY, "/teams", name="Acme").fails(422, "validation_failed")
    assert not KeyedRequest.objects.exists()
    api(alice).post_once(KEY, "/teams", **ACME).gives(201)
    api(alice).post_once(KEY, "/teams", name="Acme").fails(422, "validation_failed")


def test_the_same_key_of_somebody_else_or_at_another_path_is_another(api, alice, bob, events):
    MemberFactory.create(team=Team.objects.create(name="Core", slug="core"), user=alice)
    repo = {"name": "Api", "slug": "api"}
    with events("repo-created", "repo-created", "team-created"):
        api(alice).post_once(KEY, "/teams/core/repos", **repo).gives(201)
        api(alice).post_once(KEY, "/users/alice/repos", **repo).gives(201)
        api(bob).post_once(KEY, "/teams", **ACME).gives(201)
    theirs = api(alice).post_once(KEY, "/teams", **ACME)
    theirs.fails(409, "slug_taken")
    assert not replayed(theirs)


def test_the_query_is_part_of_the_path(api, alice, team_repo, acme, events):
    url = f"{team_repo.api_path}/forks"
    mine = api(alice).post_once(KEY, url).gives(201)
    theirs = api(alice).post_once(KEY, f"{url}?team_slug=acme").gives(201)
    assert mine["uuid"] != theirs["uuid"]
    assert api(alice).post_once(KEY, f"{url}?team_slug=acme").gives(201) == theirs


def test_a_refusal_is_a_first_answer_too(api, alice, bob):
    api(bob).post("/teams", **ACME).gives(201)
    first = api(alice).post_once(KEY, "/teams", **ACME)
    first.fails(409, "slug_taken")
    Team.objects.all().delete()
    again = api(alice).post_once(KEY, "/teams", **ACME)
    assert (again.status, again.json, replayed(again)) == (409, first.json, True)
    api(alice).post_once("another", "/teams", **ACME).gives(201)


def test_who_may_try_again_later_gets_another_answer_then(api, sam):
    """This covers 429. Other tests cover 401 and 5xx."""
    SiteSettings.load()
    SiteSettings.objects.update(signup_invite_max_per_24h=0)
    wanted = {"expires_at": "3 days"}
    refused = api(sam).post_once(KEY, "/signup-invites", **wanted)
    refused.fails(429, "signup_invite_limit_reached")
    SiteSettings.objects.update(signup_invite_max_per_24h=1)
    invite = api(sam).post_once(KEY, "/signup-invites", **wanted).gives(201)
    assert api(sam).post_once(KEY, "/signup-invites", **wanted).gives(201) == invite


def test_who_is_not_known_gets_no_answer_of_others(api, alice, make):
    api(alice).post_once(KEY, "/teams", **ACME).gives(201)
    api().post_once(KEY, "/teams", **ACME).fails(401, "not_authenticated")
    ApiToken.objects.all().delete()
    api(alice).post_once(KEY, "/teams", **ACME).fails(401, "invalid_token")


def test_after_a_day_the_key_is_a_new_one(api, alice, events):
    with events("token-created"):
        first = api(alice).post_once(KEY, "/api-tokens", name="ci").gives(201)
        pass_time(hours=23, minutes=59)
        assert api(alice).post_once(KEY, "/api-tokens", name="ci").gives(201) == first
    pass_time(minutes=1)
    with events("token-created"):
        second = api(alice).post_once(KEY, "/api-tokens", name="laptop").gives(201)
        assert api(alice).post_once(KEY, "/api-tokens", name="laptop").gives(201) == second
    assert second["uuid"] != first["uuid"]


def test_the_worker_forgets_what_is_a_day_old_and_nothing_else(api, alice, monkeypatch):
    monkeypatch.setattr("apps.idempotency.jobs.BATCH", 2)
    for number in range(5):
        api(alice).post_once(f"old {number}", "/api-tokens", name="ci").gives(201)
    pass_time(days=1)
    kept = api(alice).post_once(KEY, "/api-tokens", name="ci").gives(201)
    said: list[str] = []
    forget_old_requests(said.append)
    forget_old_requests(said.append)
    assert said == ["5 requests with a key deleted"]
    assert api(alice).post_once(KEY, "/api-tokens", name="ci").gives(201) == kept


def test_of_one_person_s_answers_the_oldest_beyond_the_bound_are_forgotten(
    api, alice, bob, monkeypatch
):
    for number in range(4):
        api(alice).post_once(f"key {number}", "/api-tokens", name="ci").gives(201)
        pass_time(minutes=1)
    api(bob).post_once(KEY, "/api-tokens", name="ci").gives(201)
    one = len(KeyedRequest.objects.latest("created_at").answer or b"")
    monkeypatch.setattr("apps.idempotency.jobs.BYTES_PER_PERSON", 3 * one)
    forget_old_requests(lambda _: None)
    forget_old_requests(lambda _: None)
    assert replayed(api(bob).post_once(KEY, "/api-tokens", name="ci"))
    again = [replayed(api(alice).post_once(f"key {n}", "/api-tokens", name="ci")) for n in (3, 2)]
    assert again == [True, True]
    assert not replayed(api(alice).post_once("key 0", "/api-tokens", name="ci"))


def test_what_is_under_way_is_no_answer_that_could_be_forgotten(api, alice, monkeypatch):
    api(alice).post_once(KEY, "/api-tokens", name="ci").gives(201)
    KeyedRequest.objects.update(answer=None)
    monkeypatch.setattr("apps.idempotency.jobs.BYTES_PER_PERSON", 0)
    forget_old_requests(lambda _: None)
    api(alice).post_once(KEY, "/api-tokens", name="ci").fails(409, "idempotency_in_progress")


def test_under_another_secret_key_every_key_is_a_new_one(api, alice, settings, events):
    caller = api(alice)
    with events("team-created"):
        caller.post_once(KEY, "/teams", **ACME).gives(201)
        settings.SECRET_KEY += "another"
        caller.post_once(KEY, "/teams", **ACME).fails(409, "slug_taken")
    with events("token-created"):
        assert not replayed(caller.post_once(KEY, "/api-tokens", name="ci"))
        assert replayed(caller.post_once(KEY, "/api-tokens", name="ci"))


def test_no_column_tells_the_key_the_answer_or_who_sent_it(api, alice):
    made = api(alice).post_once(KEY, "/api-tokens", name="laptop").gives(201)
    [row] = KeyedRequest.objects.values_list()
    stored = b"|".join(value if isinstance(value, bytes) else str(value).encode() for value in row)
    for told in (KEY, made["token"], made["token"][4:], made["uuid"], "laptop", "alice"):
        assert told.encode() not in stored
    again = api(alice).post_once(KEY, "/api-tokens", name="laptop").gives(201)
    assert again["token"] == made["token"]


def test_who_has_lost_access_gets_no_kept_answer(api, alice, bob, team_repo):
    url, wanted = f"{team_repo.api_path}/threads", {"title": "t", "body": "", "kind": "issue"}
    api(bob).post_once(KEY, url, **wanted).gives(201)
    Member.objects.filter(user=bob).delete()
    api(bob).post_once(KEY, url, **wanted).fails(403, "forbidden")


def test_what_the_body_asks_for_takes_the_same_rights_again(api, alice, bob, sam, acme):
    """A token for another person requires staff, and adding an owner requires an owner."""
    member = {"username": UserFactory.create().username, "role": "owner"}
    api(alice).post_once(KEY, "/teams/acme/members", **member).gives(201)
    Member.objects.filter(user=alice).update(role="admin")
    api(alice).post_once(KEY, "/teams/acme/members", **member).fails(403, "role_required")

    token = {"name": "ci", "username": bob.username}
    api(sam).post_once(KEY, "/api-tokens", **token).gives(201)
    type(sam).objects.filter(pk=sam.pk).update(is_staff=False)
    api(sam).post_once(KEY, "/api-tokens", **token).fails(403, "staff_required")


def test_a_token_that_ends_sooner_gets_no_text_of_one_that_it_could_not_have_made(api, alice):
    """Otherwise a token of an hour and a guessed key would give a token that never expires."""
    caller = api(alice)
    made = caller.post_once(KEY, "/api-tokens", name="ci").gives(201)
    short = Api(caller.post("/api-tokens", name="short", expires_at="1h").gives(201)["token"])
    short.post_once(KEY, "/api-tokens", name="ci").fails(403, "role_required")
    assert caller.post_once(KEY, "/api-tokens", name="ci").gives(201) == made

    own = short.post_once("own", "/api-tokens", name="ci").gives(201)
    for client in (short, caller):
        assert client.post_once("own", "/api-tokens", name="ci").gives(201) == own


def test_a_token_that_ends_sooner_gets_no_text_of_a_bot_s_token_that_lasts_longer(api, alice, acme):
    caller, tokens = api(alice), "/teams/acme/bots/ci/api-tokens"
    caller.post("/teams/acme/bots", username="ci").gives(201)
    made = caller.post_once(KEY, tokens, name="deploy").gives(201)
    short = Api(caller.post("/api-tokens", name="short", expires_at="1h").gives(201)["token"])
    short.post_once(KEY, tokens, name="deploy").fails(403, "role_required")
    assert caller.post_once(KEY, tokens, name="deploy").gives(201) == made


def test_a_fork_into_a_team_that_one_has_left_is_not_told_again(api, alice, team_repo, carol):
    team_repo.visibility = "internal"
    team_repo.save()
    core = Team.objects.create(name="Core", slug="core")
    MemberFactory.create(team=core, user=carol)
    url = f"{team_repo.api_path}/forks?team_slug=core"
    api(carol).post_once(KEY, url).gives(201)
    Member.objects.filter(user=carol).delete()
    api(carol).post_once(KEY, url).fails(403, "forbidden")


def test_a_kept_answer_counts_for_rate_limits(api, alice, sam):
    create_rate_limit(principal=principal_of(sam), scope="write", max_requests=2, window_seconds=60)
    left = [
        api(alice).post_once(KEY, "/teams", **ACME).header("X-RateLimit-Remaining")
        for _ in range(2)
    ]
    assert left == ["1", "0"]
    api(alice).post_once(KEY, "/teams", **ACME).fails(429, "rate_limited")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_other_methods_ignore_the_header(api, alice, make, team_repo, method):
    thread = make.thread(team_repo, by=alice)
    url, body = f"{team_repo.api_path}/threads/{thread.number}", None
    if method == "PUT":
        url, body = team_repo.api_path, {"name": "Api", "slug": "api"}
    if method == "PATCH":
        body = {"title": "Slower"}
    answer = api(alice).send(method, url, body, {"Idempotency-Key": '"'})
    assert answer.status in {200, 204}
    assert not KeyedRequest.objects.exists()
