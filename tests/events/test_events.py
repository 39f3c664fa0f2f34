"""GET /events and /events/{id}"""

from __future__ import annotations

import re
from itertools import count

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.actions import create_user
from apps.events import scopes
from apps.events.kinds import Kind
from apps.events.models import Event
from apps.events.record import record
from apps.teams.actions import create_team
from tests.factories import TeamFactory
from tests.principals import principal_of
from tests.routes import described_paths

numbers = count(1)


@pytest.fixture
def log(alice):
    """A team with `team-created`, the given number of `team-updated`, and events of other teams.

    Returns its scope, all ids oldest first, and a function that adds more.
    """

    def begin(events: int):
        slug = f"log{next(numbers)}"
        team = create_team(principal=principal_of(alice), name="Log", slug=slug)
        other = TeamFactory.create(slug=f"other{next(numbers)}", owner=alice)
        ids = list(team_ids(team))

        def add(burst: int) -> None:
            data = {"changed": ["name"]}
            with transaction.atomic():
                for _ in range(burst):
                    record(Kind.TEAM_UPDATED, actor=alice, about=other, data=data)
                    record(Kind.TEAM_UPDATED, actor=alice, about=team, data=data)
            ids[:] = team_ids(team)

        add(events - 1)
        return f"/events?scope=team%3A{team.slug}", ids, add

    return begin


def team_ids(team):
    return Event.objects.filter(team_id=team.pk).order_by("id").values_list("id", flat=True)


def ids_of(page):
    return [event["id"] for event in page["results"]]


def test_events_are_listed_newest_first(api, alice, log):
    url, ids, _ = log(3)
    page = api(alice).get(url).gives()
    assert ids_of(page) == ids[::-1]
    assert page["next"] is None
    assert page["previous"] == f"http://testserver/api/v1{url}&after_id={ids[-1]}"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "validation_failed"),
        ("scope=", "validation_failed"),
        ("scope=inbox:", "invalid_scope"),
        ("scope=Self", "invalid_scope"),
        ("scope=self:alice", "invalid_scope"),
        ("scope=user:", "invalid_scope"),
        ("scope=team:", "invalid_scope"),
        ("scope=repo:", "invalid_scope"),
        ("scope=thread:", "invalid_scope"),
        ("scope=repo:acme/api", "invalid_scope"),
        ("scope=repo:teams/acme/api/1", "invalid_scope"),
        ("scope=thread:teams/acme/api", "invalid_scope"),
        ("scope=thread:teams/acme/api/x", "invalid_scope"),
        ("scope=self&kind=Reply", "validation_failed"),
        ("scope=self&kind=reply--created", "validation_failed"),
        ("scope=self&kind=" + "a" * 41, "validation_failed"),
        ("scope=self&before_id=x", "invalid_cursor"),
        ("scope=self&before_id=", "invalid_cursor"),
        ("scope=self&after_id=-1", "invalid_cursor"),
        ("scope=self&after_id=1.5", "invalid_cursor"),
        ("scope=self&after_id=%D9%A3", "invalid_cursor"),
        ("scope=self&per_page=0", "validation_failed"),
        ("scope=self%00", "validation_failed"),
    ],
)
def test_what_cannot_be_understood_is_refused(api, alice, query, code):
    api(alice).get(f"/events?{query}").fails(422, code)


def test_scopes_are_for_those_who_may_read_them(api, carol, sam, acme, team_repo):
    stranger = api(carol)
    stranger.get("/events?scope=self&scope=repo:teams/acme/api").fails(403, "forbidden")
    stranger.get("/events?scope=team:nowhere").fails(404, "not_found")
    stranger.get("/events?scope=repo:teams/acme/nothing").fails(404, "not_found")
    stranger.get("/events?scope=user:nobody").fails(404, "not_found")
    create_user(principal=None, username="zoe")
    for scope in ("team:ACME", "repo:teams/acme/api", "site", "user:Alice"):
        assert api(sam).get(f"/events?scope={scope}").gives()["results"]


def test_scopes_and_kinds_are_joined_and_narrow_each_other(api, alice, team_repo):
    other = create_team(principal=principal_of(alice), name="Other", slug="other")
    url = "/events?scope=team:acme&scope=team:other&kind=team-created&kind=repo-created"
    results = api(alice).get(url).gives()["results"]
    assert [event["kind"] for event in results] == ["team-created", "repo-created", "team-created"]
    assert results[0]["target"] == {"kind": "team", "slug": other.slug}
    assert api(alice).get("/events?scope=self&kind=not-yet-known").gives()["results"] == []


def test_requests_for_many_kinds_compile_few_queries(api, alice, acme):
    """A compiled query stays in memory, and clients choose the number of kinds."""
    scopes.events_statement.cache_clear()
    kinds = "&kind=team-created"
    for number in range(33):
        assert len(api(alice).get(f"/events?scope=team:acme{kinds}").gives()["results"]) == 1
        kinds += f"&kind=k{number}"
    assert scopes.events_statement.cache_info().currsize <= 7


def test_an_event_that_matches_twice_is_listed_once(api, alice, team_repo):
    url = "/events?scope=team:acme&scope=repo:teams/acme/api&scope=self&scope=user:alice"
    ids = ids_of(api(alice).get(url).gives())
    assert ids == sorted(set(ids), reverse=True)


def test_before_and_after_together_are_the_open_interval(api, alice, log):
    url, ids, _ = log(9)
    page = api(alice).get(f"{url}&after_id={ids[1]}&before_id={ids[7]}&per_page=3").gives()
    assert ids_of(page) == ids[6:3:-1]
    rest = api(alice).get(page["next"]).gives()
    assert (ids_of(rest), rest["next"]) == (ids[3:1:-1], None)
    assert ids_of(api(alice).get(page["previous"]).gives()) == ids[8:6:-1]


def test_a_cursor_beyond_all_ids_is_a_cursor(api, alice, log):
    url, ids, _ = log(2)
    assert ids_of(api(alice).get(f"{url}&before_id={10**30}").gives()) == ids[::-1]
    assert ids_of(api(alice).get(f"{url}&after_id={10**30}").gives()) == []
    assert ids_of(api(alice).get(f"{url}&before_id=0").gives()) == []


def test_an_empty_page_can_be_polled(api, alice, log):
    url, ids, add = log(2)
    page = api(alice).get(f"{url}&after_id={ids[-1]}").gives()
    assert page["results"] == []
    assert page["previous"].endswith(f"&after_id={ids[-1]}")
    assert ids_of(api(alice).get(page["next"]).gives()) == ids[::-1]
    add(1)
    assert ids_of(api(alice).get(page["previous"]).gives()) == ids[-1:]


@pytest.mark.parametrize("text", ["user:", "team:", "repo:x", "thread:teams/acme/api", "elsewhere"])
def test_the_document_names_the_forms_of_scopes(text):
    parameters = described_paths()["/events"]["get"]["parameters"]
    [schema] = [parameter["schema"] for parameter in parameters if parameter["name"] == "scope"]
    forms = schema["items"]["pattern"]
    assert not re.search(forms, text)
    for scope in ("self", "user:alice", "repo:Teams/Acme/api", "pull:users/alice/api/1"):
        assert re.search(forms, scope)


def test_only_a_page_without_a_cursor_and_events_has_no_previous(api, bob):
    for more in ("&after_id=0", "&before_id=9", "&after_id=3&before_id=9"):
        page = api(bob).get(f"/events?scope=self&kind=pull-merged{more}").gives()
        assert page["results"] == []
        assert page["previous"]
    empty = api(bob).get("/events?scope=self&kind=pull-merged").gives()
    assert (empty["next"], empty["previous"]) == (None, None)


@pytest.mark.parametrize("per_page", [1, 2, 3, 5, 6])
def test_walking_back_shows_everything_once(api, alice, log, per_page):
    url, ids, _ = log(5)
    received, link = [], f"{url}&per_page={per_page}"
    while link:
        page = api(alice).get(link).gives()
        assert page["results"] and len(page["results"]) <= per_page
        received += ids_of(page)
        link = page["next"]
    assert received == ids[::-1]


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(bursts=st.lists(st.integers(0, 5), max_size=3), per_page=st.integers(1, 3))
def test_a_poller_misses_nothing_in_a_burst(api, alice, log, bursts, per_page):
    url, ids, add = log(1)
    client = api(alice)
    page = client.get(f"{url}&per_page={per_page}").gives()
    received = ids_of(page)
    for burst in [*bursts, 0]:
        add(burst)
        while (page := client.get(page["previous"]).gives())["results"]:
            received += ids_of(page)[::-1]
            older = client.get(page["next"]).gives() if page["next"] else {"results": []}
            assert ids_of(older) == ids[: ids.index(ids_of(page)[-1])][::-1][:per_page]
    assert received == ids


def test_links_keep_what_was_asked_for(api, alice, log):
    url, _, _ = log(4)
    page = api(alice).get(f"{url}&scope=self&kind=team-updated&kind=x&per_page=2").gives()
    expected = f"http://testserver/api/v1{url}&scope=self&kind=team-updated&kind=x&per_page=2"
    assert page["next"] == f"{expected}&before_id={ids_of(page)[-1]}"
    assert page["previous"] == f"{expected}&after_id={ids_of(page)[0]}"


def test_the_list_takes_as_many_queries_for_many_events_as_for_few(api, alice, log, team_repo):
    url, _, add = log(2)
    client = api(alice)
    client.get(url).gives()  # updates the last use of the token
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            client.get(f"{url}&scope=self&scope=team:acme&per_page=100").gives()
        counts.append(len(queries))
        add(20)
    assert counts[0] == counts[1] <= 10
    assert not any("COUNT(" in query["sql"] for query in queries)


def test_one_event_is_read_by_whoever_may_read_its_subject(api, alice, bob, carol, team_repo):
    newest = api(alice).get("/events?scope=repo:teams/acme/api").gives()["results"][0]
    api(carol).get("/events/999999999").fails(404, "not_found")
    api(alice).get("/events/first").fails(404, "not_found")
    assert api(bob).get(f"/events/{newest['id']}").gives() == newest


def test_what_happens_to_a_token_is_for_its_owner_and_who_did_it(api, alice, bob, sam):
    made = api(sam).post("/api-tokens", name="for bob", username="bob").gives(201)
    event = api(sam).get("/events?scope=self").gives()["results"][0]
    assert event["target"] == {"kind": "token", "uuid": made["uuid"]}
    assert made["token"] not in str(event)
    api(bob).get(f"/events/{event['id']}").gives()
    api(alice).get(f"/events/{event['id']}").fails(403, "forbidden")
    assert event["id"] not in ids_of(api(alice).get("/events?scope=user:sam").gives())


def test_a_user_scope_leaves_out_what_its_reader_may_not_read(api, alice, carol, make, acme):
    for visibility in ("private", "internal", "public"):
        make.repo(acme, visibility, by=alice, visibility=visibility)
    url = "/events?scope=user:alice&kind=repo-created"
    paths = [event["repo_path"] for event in api(carol).get(url).gives()["results"]]
    assert paths == ["teams/acme/public", "teams/acme/internal"]
    assert len(api(alice).get(url).gives()["results"]) == 3


def test_an_event_names_every_scope_it_matches(api, alice, repo):
    path = repo.path
    body = {"title": "One", "body": "", "kind": "issue"}
    api(alice).post(f"{repo.api_path}/threads", **body).gives(201)
    event = api(alice).get(f"/events?scope=thread:{path}/1").gives()["results"][0]
    team = ["team:acme"] if repo.owner_team_id else []
    assert event["scopes"] == ["user:alice", *team, f"repo:{path}", f"thread:{path}/1"]
    assert event["summary"] == {
        "thread_title": "One",
        "web_url": f"http://testserver/{path}/threads/1",
        "api_url": f"http://testserver/api/v1{repo.api_path}/threads/1",
    }


def test_without_the_asgi_process_the_stream_is_unavailable(api, alice):
    api().get("/tail-events?scope=self").fails(401, "not_authenticated")
    api(alice).get("/tail-events?scope=nothing").fails(422, "invalid_scope")
    api(alice).get("/tail-events?scope=self").fails(503, "unavailable")
