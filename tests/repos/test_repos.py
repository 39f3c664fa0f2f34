"""/{owner}/repos and /{owner}/repos/{repo_slug}"""

from __future__ import annotations

import pytest

from apps.repos.models import Repo, Visibility
from tests.api import Api


def of(repo: Repo) -> str:
    """The path of the list that contains a repository."""
    return repo.api_path.rpartition("/")[0]


def test_a_repo_is_made_by_those_who_may_write_at_its_owner(api, acme, alice, bob, events):
    body = {"name": "Core", "slug": "core"}
    with events("repo-created", "repo-created", "repo-created"):
        team = api(bob).post("/teams/acme/repos", **body).gives(201)
        own = api(alice).post("/users/alice/repos", **body).gives(201)
        api(bob).post("/users/bob/repos", **body).gives(201)
    expected = ("teams/acme/core", "team", "acme")
    assert (team["path"], team["owner_kind"], team["owner_slug"]) == expected
    assert (own["path"], own["owner_kind"], own["owner_slug"]) == (
        "users/alice/core",
        "user",
        "alice",
    )


def test_a_new_repo_is_private_and_empty_and_says_where_it_is(api, alice):
    made = api(alice).post("/users/alice/repos", name="Core", slug="core").gives(201)
    assert (made["visibility"], made["description"]) == ("private", None)
    assert (made["is_empty"], made["default_branch"], made["pushed_at"]) == (True, "main", None)
    assert (made["is_archived"], made["is_fork"], made["fork_count"]) == (False, False, 0)
    assert made["clone_url"] == "http://testserver/users/alice/core.git"
    assert made["web_url"] == "http://testserver/users/alice/core"
    assert made["api_url"] == "http://testserver/api/v1/users/alice/repos/core"
    assert made["caller_permission"] == "owner"
    assert Repo.objects.get().git.exists()
    assert api(alice).get(made["api_url"]).gives() == made


def test_a_repo_keeps_what_it_is_given(api, alice):
    body = {"name": "Core", "slug": "core", "description": "", "visibility": "public"}
    made = api(alice).post("/users/alice/repos", **body).gives(201)
    assert {name: made[name] for name in body} == body


def test_a_slug_is_taken_once_for_each_owner(api, repo, alice, events):
    with events():
        api(alice).post(of(repo), name="x", slug=repo.slug).fails(409, "slug_taken")
    assert Repo.objects.count() == 1
    api(alice).post(of(repo), name="x", slug="other").gives(201)
    changed = api(alice).put(repo.api_path, name="x", slug="other")
    changed.fails(409, "slug_taken")


def test_a_slug_must_be_one(api, repo, alice):
    for slug in ("API", "a.git", "..", "new", "a b", ""):
        for answer in (
            api(alice).post(of(repo), name="x", slug=slug),
            api(alice).put(repo.api_path, name="x", slug=slug),
        ):
            assert answer.fails(422, "validation_failed").startswith("slug: "), slug


def test_admins_change_a_repo(api, make, acme, team_repo, bob, events):
    body = {"name": "Engine", "slug": "engine", "visibility": "internal", "description": "Fast."}
    acme.members.filter(user=bob).update(role="admin")
    with events("repo-updated") as recorded:
        changed = api(bob).put(team_repo.api_path, **body).gives()
    assert {name: changed[name] for name in body} == body
    before = {"name": "Api", "slug": "api", "visibility": "private", "description": None}
    assert recorded[0].data.pop("changed") == ["name", "slug", "visibility", "description"]
    assert recorded[0].data == {"before": before, "after": body}
    assert changed["updated_at"] > changed["created_at"]
    assert api(bob).get(team_repo.api_path).status == 301
    assert api(bob).get("/teams/acme/repos/engine").gives() == changed


def test_an_event_tells_the_beginning_of_a_long_description(api, repo, alice, events):
    body = {"name": "Api", "slug": "api"}
    with events("repo-updated", "repo-updated") as recorded:
        api(alice).put(repo.api_path, **body, description="x" * 1000).gives()
        api(alice).put(repo.api_path, **body, description="y" * 1001).gives()
    values = [(event.data["before"], event.data["after"]) for event in recorded]
    assert values[0] == ({"description": None}, {"description": "x" * 1000})
    assert values[1] == ({"description": "x" * 1000}, {"description": "y" * 999 + "…"})


def test_what_an_update_leaves_out_stays(api, repo, alice, events):
    given = {"name": "API", "slug": "api", "description": "Fast.", "visibility": "public"}
    api(alice).put(repo.api_path, **given).gives()
    with events():
        same = api(alice).put(repo.api_path, name="API", slug="api").gives()
    assert (same["description"], same["visibility"]) == ("Fast.", "public")
    cleared = api(alice).put(repo.api_path, name="API", slug="api", description=None).gives()
    assert cleared["description"] is None


def listed(caller: Api, path: str) -> list[str]:
    return [row["slug"] for row in caller.get(path).gives()["results"]]


@pytest.fixture
def three(make, repo, alice) -> str:
    """An internal and a public repository of the owner of the private `api`."""
    for visibility in ("internal", "public"):
        make.repo(repo.owner, f"x-{visibility}", by=alice, visibility=visibility)
    return of(repo)


def test_a_list_shows_what_its_reader_may_read_by_slug(api, three, alice, carol, sam):
    assert listed(api(carol), three) == ["x-internal", "x-public"]
    for insider in (alice, sam):
        assert listed(api(insider), three) == ["api", "x-internal", "x-public"]


def test_repos_are_searched_in_name_slug_and_description(api, three, alice, carol):
    described = {"name": "Y", "slug": "y", "description": "Speaks of the API."}
    api(alice).post(three, **described).gives(201)
    assert listed(api(alice), f"{three}?search=aPi") == ["api", "y"]
    assert listed(api(carol), f"{three}?search=api") == []
    assert listed(api(carol), f"{three}?search=public") == ["x-public"]


def test_a_private_repo_is_forbidden_and_an_absent_one_not_found(api, repo, carol):
    api(carol).get(repo.api_path).fails(403, "forbidden")
    api(carol).get(f"{of(repo)}/nothing").fails(404, "not_found")
    api(carol).get("/teams/nobody/repos").fails(404, "not_found")
    api(carol).get("/users/nobody/repos").fails(404, "not_found")


def test_urls_are_under_the_base_url_where_one_is_set(api, repo, alice, settings):
    settings.BASE_URL = "https://code.example.org"
    record = api(alice).get(repo.api_path).gives()
    assert record["clone_url"] == f"https://code.example.org/{repo.path}.git"


def test_visibility_is_one_of_three(api, repo, alice):
    for word in Visibility:
        api(alice).put(repo.api_path, name="x", slug="api", visibility=word).gives()
    refused = api(alice).put(repo.api_path, name="x", slug="api", visibility="secret")
    assert "private, internal, public" in refused.fails(422, "validation_failed")
