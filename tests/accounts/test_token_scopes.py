"""The permission of a token, and the repositories to which it is limited."""

from __future__ import annotations

import pytest

from apps.accounts.authentication import principal_of
from apps.accounts.models import ApiToken
from apps.core.access import Permission
from apps.core.operation import Operation
from apps.events.models import Event
from apps.repos.actions import update_repo
from apps.repos.models import Repo
from tests.api import Api
from tests.factories import ForkFactory
from tests.principals import access_of
from tests.routes import routed

REPO = "/teams/acme/repos/api"
LIMITED = {"is_limited": True}


@pytest.fixture
def other(make, acme, alice):
    return make.repo(acme, "other", by=alice)


@pytest.fixture
def limited(make, alice, team_repo):
    """A client of alice's token with all permissions on one repository."""
    return Api(make.scoped_token(alice, team_repo))


def test_a_token_has_all_rights_of_its_owner_unless_told_otherwise(api, alice, team_repo):
    made = api(alice).post("/api-tokens", name="laptop").gives(201)
    assert (made["permission"], made["repo_paths"], made["repo_uuids"]) == ("admin", None, None)
    null = api(alice).post("/api-tokens", name="laptop", repo_paths=None).gives(201)
    assert null["repo_paths"] is None


def test_a_record_says_what_the_token_may_do(api, alice, team_repo):
    scope = {"permission": "read", "repo_paths": ["Teams/ACME/Api", "teams/acme/api"]}
    made = api(alice).post("/api-tokens", name="deploy", **scope).gives(201)
    text = made.pop("token")
    assert (made["permission"], made["repo_paths"]) == ("read", ["teams/acme/api"])
    assert made["repo_uuids"] == [str(team_repo.uuid)]
    used = Api(text).get("/api-tokens/self").gives()
    assert {**used, "last_used_at": None} == made
    assert used in api(alice).get("/api-tokens").gives()["results"]


@pytest.mark.parametrize(
    "scope",
    [
        {"permission": "owner"},
        {"permission": None},
        {"repo_paths": []},
        {"repo_paths": "teams/acme/api"},
        {"repo_paths": ["acme/api"]},
        {"repo_paths": ["teams/acme/api"] * 51},
    ],
    ids=str,
)
def test_an_invalid_scope_is_refused(api, alice, team_repo, scope):
    api(alice).post("/api-tokens", name="x", **scope).fails(422, "validation_failed")


def test_a_token_is_limited_to_what_its_owner_may_read(api, alice, carol, sam, team_repo, events):
    with events():
        for path in ("teams/acme/api", "teams/acme/missing"):
            detail = api(carol).post("/api-tokens", name="x", repo_paths=[path])
            assert path in detail.fails(422, "validation_failed")
            for_carol = {"username": "carol", "repo_paths": [path]}
            api(sam).post("/api-tokens", name="x", **for_carol).fails(422, "validation_failed")
    Repo.objects.filter(pk=team_repo.pk).update(visibility="public")
    api(carol).post("/api-tokens", name="x", repo_paths=["teams/acme/api"]).gives(201)


def test_every_change_says_which_permission_it_needs():
    """A change below the level ADMIN has to state it, because it does not follow from the level."""
    unstated = [
        str(one)
        for one in routed()
        if one.method != "GET"
        and one.operation.permission is None
        and Permission.for_level(one.operation.level) is not Permission.ADMIN
    ]
    assert unstated == []


def test_a_change_that_says_nothing_needs_all_rights():
    silent = Operation(level=Permission.READ.ceiling)
    assert silent.token_permission("POST") is Permission.ADMIN
    assert silent.token_permission("HEAD") is Permission.READ


def test_a_lower_permission_is_refused_and_named(make, alice, team_repo, events):
    reading, writing = (Api(make.scoped_token(alice, permission=one)) for one in ("read", "write"))
    thread = {"title": "Slow", "kind": "issue", "body": "Pushes are slow."}
    with events():
        detail = reading.post(f"{REPO}/threads", **thread).fails(403, "token_scope")
        assert "a token with write permission; this one has read" in detail
        detail = writing.post(f"{REPO}/protections", branch="main").fails(403, "token_scope")
        assert "a token with admin permission; this one has write" in detail
    writing.post(f"{REPO}/threads", **thread).gives(201)
    reading.get(f"{REPO}/threads/1").gives()


def test_a_role_that_is_too_low_is_refused_before_the_token(make, carol, bob, team_repo):
    """A token with more rights would not help."""
    for person, code in ((carol, "forbidden"), (bob, "role_required")):
        reading = Api(make.scoped_token(person, permission="read"))
        reading.post(f"{REPO}/protections", branch="main").fails(403, code)
        reading.get("/rate-limits").fails(403, "staff_required")


def test_a_limited_token_is_valid_for_its_repositories_alone(limited, other):
    limited.get(REPO).gives()
    limited.put(REPO, name="Renamed", slug="api").gives()
    detail = limited.get("/teams/acme/repos/other").fails(403, "token_scope")
    assert "read permission that is not limited to other repositories" in detail
    limited.get("/teams/acme/repos/missing").fails(404, "not_found")


@pytest.mark.parametrize(
    "path",
    [
        "/api-tokens",
        "/users",
        "/users/alice",
        "/users/alice/activity",
        "/users/self/export",
        "/users/alice/repos",
        "/teams",
        "/teams/acme",
        "/teams/acme/members",
        "/teams/acme/repos",
        "/teams/acme/check-repo-slug?slug=other",
        "/suggest-users?name=al&team_slug=acme",
        "/threads",
        "/pulls",
        "/pings",
        "/site-settings",
        "/events?scope=self",
        "/events?scope=inbox",
        "/events?scope=user:alice",
        "/events?scope=team:acme",
        "/events?scope=repo:teams/acme/other",
        "/events?scope=repo:teams/acme/api&scope=repo:teams/acme/other",
    ],
)
def test_a_limited_token_reads_nothing_outside_its_repositories(limited, other, path):
    limited.get(path).fails(403, "token_scope")


@pytest.mark.parametrize(
    "path",
    [
        "/api-tokens/self",
        "/users/self",
        "/openapi.json",
        "/check-username?username=fresh",
        "/check-team-slug?slug=fresh",
        "/suggest-users?name=al",
        "/events?scope=repo:teams/acme/api",
    ],
)
def test_a_limited_token_reads_itself_and_what_is_open(limited, path):
    assert limited.client.get(f"/api/v1{path}", headers=limited.headers).status_code == 200


def test_a_limited_token_makes_and_changes_no_token(limited, alice):
    own = alice.tokens.get(**LIMITED)
    limited.post("/api-tokens", name="more").fails(403, "token_scope")
    limited.delete(f"/api-tokens/{own.uuid}").fails(403, "token_scope")
    limited.put(f"/api-tokens/{own.uuid}/revoke").fails(403, "token_scope")
    limited.get(f"/api-tokens/{own.uuid}").fails(403, "token_scope")


def test_staff_has_its_powers_only_with_all_rights(make, sam, team_repo):
    """It reads what it may read, but it manages nothing."""
    for token in (
        make.scoped_token(sam, permission="write"),
        make.scoped_token(sam, team_repo),
    ):
        Api(token).get("/rate-limits").fails(403, "token_scope")
        Api(token).get("/signup-invites").fails(403, "token_scope")
        Api(token).get("/events?scope=site").fails(403, "token_scope")
        Api(token).get(REPO).gives()


def test_a_limited_token_follows_its_repository(api, make, alice, acme, team_repo, limited):
    by = access_of(alice, team_repo)
    update_repo(access=by, name="Renamed", slug="renamed")
    limited.get("/teams/acme/repos/renamed").gives()
    assert limited.get("/api-tokens/self").gives()["repo_paths"] == ["teams/acme/renamed"]
    make.repo(acme, "api", by=alice)
    limited.get(REPO).fails(403, "token_scope")


def test_a_token_whose_repositories_are_gone_may_do_nothing(limited, alice, team_repo, other):
    limited.delete(f"{REPO}?confirm=acme/api").gives(202)
    assert limited.get("/api-tokens/self").gives()["repo_paths"] == []
    limited.get("/teams/acme/repos/other").fails(403, "token_scope")
    alice.tokens.get(**LIMITED).repos.clear()
    limited.get("/teams/acme/repos/other").fails(403, "token_scope")


def test_a_token_has_no_more_than_its_owner_has_now(make, bob, acme, team_repo):
    token = Api(make.scoped_token(bob, team_repo, permission="write"))
    token.get(REPO).gives()
    acme.members.filter(user=bob).delete()
    token.get(REPO).fails(403, "forbidden")
    assert token.get("/api-tokens/self").gives()["repo_paths"] == []


def test_a_token_with_its_scope_is_read_by_one_statement(
    make, alice, team_repo, other, django_assert_num_queries
):
    text = make.scoped_token(alice, team_repo, other, permission="write")
    ApiToken.objects.update(last_used_at=alice.tokens.latest("created_at").created_at)
    with django_assert_num_queries(1):
        principal = principal_of(text)
    assert principal.permission is Permission.WRITE
    assert principal.repo_ids == frozenset({team_repo.pk, other.pk})


def test_a_limited_token_learns_no_name_of_another_repository(make, api, alice, bob, acme):
    """Neither of the upstream, nor of a fork, nor of a text that another token has written."""
    upstream = make.repo(bob, "hidden", by=bob, visibility="public")
    fork = ForkFactory.create(upstream=upstream, owner=acme, created_by=alice).repo
    assert fork is not None
    ForkFactory.create(upstream=fork, owner=alice, created_by=alice)
    make.thread(upstream, by=bob)
    make.thread(fork, by=alice, body="See users/bob/hidden#1.")
    limited = Api(make.scoped_token(alice, fork))
    path = f"/teams/acme/repos/{fork.slug}"
    full = api(alice).get(path).gives()
    assert full["upstream_path"] == "users/bob/hidden"
    for read in (path, f"{path}/fork", f"{path}/forks", f"{path}/threads/1?render=html"):
        text = str(limited.get(read).gives())
        for other in ("users/bob/hidden/", "'users/bob/hidden'", f"users/alice/{fork.slug}"):
            assert other not in text, read
    limited.get(f"{path}/compare/main...users/alice:main").fails(403, "token_scope")
    new = {"title": "t", "body": "", "source_branch": "users/alice:topic", "target_branch": "main"}
    limited.post(f"{path}/pulls", **new).fails(403, "token_scope")


def test_a_refusal_names_no_repository(make, api, alice, acme, team_repo):
    """Not even the present name, for a request by a former one."""
    update_repo(access=access_of(alice, team_repo), name="Secret", slug="secret")
    limited = Api(make.scoped_token(alice, make.repo(acme, "mine", by=alice)))
    refused = limited.get(REPO)
    assert "secret" not in refused.fails(403, "token_scope")
    assert "Location" not in refused.response.headers
    detail = limited.get("/events?scope=repo:teams/acme/api").fails(403, "token_scope")
    assert "secret" not in detail


def test_a_limited_token_reads_events_of_its_repository_alone(make, alice, team_repo, other):
    limited = Api(make.scoped_token(alice, team_repo))
    ids = {
        repo.pk: Event.objects.filter(repo_id=repo.pk).latest("id").pk
        for repo in (team_repo, other)
    }
    limited.get(f"/events/{ids[team_repo.pk]}").gives()
    limited.get(f"/events/{ids[other.pk]}").fails(403, "token_scope")
    own = Event.objects.filter(kind="token-created", private_to=alice.pk).latest("id")
    limited.get(f"/events/{own.pk}").fails(403, "token_scope")
    listed = limited.get("/events?scope=repo:teams/acme/api").gives()["results"]
    assert {event["repo_path"] for event in listed} == {"teams/acme/api"}


def test_a_limited_token_is_refused_like_its_person_where_they_have_no_access(
    make, bob, carol, team_repo
):
    """Another token would not help: it is not the scope that is too small."""
    limited = Api(make.scoped_token(carol, make.repo(carol, "mine", by=carol)))
    limited.get(REPO).fails(403, "forbidden")
    limited.post(f"{REPO}/threads", title="t", kind="issue", body="").fails(403, "forbidden")
    for path in ("/users/bob/repos/missing", "/teams/acme/repos/missing"):
        limited.get(path).fails(404, "not_found")
