"""The access level, and `visible_to`, the same rule for lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from apps.accounts.models import User
from apps.core.access import Level, Permission
from apps.repos.access import access_to, level_on
from apps.repos.models import Repo, Visibility
from apps.teams.models import Member, Role, Team
from apps.threads import pagination
from apps.threads.models import Thread
from tests.by_actions import MakeByActions
from tests.factories import PullFactory, TeamFactory, ThreadFactory, UserFactory
from tests.principals import access_of, principal_of, space_access_of

PEOPLE = {"anonymous", "stranger", "staff", "inactive", "idle member", *Role}
"""`inactive` is in no team, `idle member` is an inactive member."""
WITH_TOKEN = sorted(PEOPLE - {"anonymous", "inactive", "idle member"})


@pytest.fixture(scope="module")
def shared_rows(django_db_setup, django_db_blocker):
    """The people, the repositories, and `make`, which has the tokens. Created once, because the
    tests here only read.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        make = MakeByActions()
        people = make_people()
        for person in people.values():
            if isinstance(person, User):
                make.token(person)
        yield people, make_repos(people), make
        transaction.set_rollback(True)


def make_people():
    """People with each role in a team, and others."""
    people = {role.value: UserFactory.create(username=f"a-{role}") for role in Role}
    people |= {
        "idle member": UserFactory.create(),
        "inactive": UserFactory.create(),
        "stranger": UserFactory.create(),
    }
    acme = TeamFactory.create(slug="acme", owner=people["owner"])
    for role in set(Role) - {Role.OWNER}:
        acme.members.create(user=people[role], role=role)
    acme.members.create(user=people["idle member"], role=Role.MEMBER)
    for name in ("inactive", "idle member"):
        people[name].is_active = False
        people[name].save()
    people["staff"] = UserFactory.create(staff=True)
    return {**people, "anonymous": AnonymousUser()}


def make_repos(people):
    """Repositories of an active and an inactive team and of each person, with each visibility, each
    with a thread and a pull.
    """
    idle = TeamFactory.create(slug="idle", owner=people["owner"])
    users = [one for one in people.values() if isinstance(one, User)]
    made = [
        Repo.objects.create(
            owner_team=owner if isinstance(owner, Team) else None,
            owner_user=owner if isinstance(owner, User) else None,
            name=visibility,
            slug=visibility,
            visibility=visibility,
        )
        for owner in (Team.objects.get(slug="acme"), idle, *users)
        for visibility in Visibility
    ]
    for repo in made:
        ThreadFactory.create(repo=repo, created_by=people["stranger"])
        PullFactory.create(repo=repo, thread__created_by=people["stranger"])
    Team.objects.filter(pk=idle.pk).update(is_active=False)
    return [Repo.objects.select_related("owner_team", "owner_user").get(pk=one.pk) for one in made]


@pytest.fixture
def people(db, shared_rows):
    return shared_rows[0]


@pytest.fixture
def repos(db, shared_rows):
    return shared_rows[1]


@pytest.fixture
def make(shared_rows):
    return shared_rows[2]


CREDENTIALS: list[dict[str, Any]] = [
    {"permission": permission, "repo_ids": ids}
    for permission in Permission
    for ids in (None, frozenset(), frozenset({1, 2, 3}))
]


@pytest.mark.parametrize("credential", CREDENTIALS, ids=str)
def test_what_a_list_shows_is_what_may_be_read_by_everybody_everywhere(people, repos, credential):
    """Holds for every credential, with a given role and with the role in the database."""
    assert set(people) == PEOPLE
    roles: dict[tuple[int | None, int | None], str]
    roles = {(member.user_id, member.team_id): member.role for member in Member.objects.all()}
    for name, person in people.items():
        who = replace(principal_of(person), **credential)
        visible = set(Repo.objects.visible_to(who).values_list("pk", flat=True))
        levels = {repo: access_to(who, repo).level for repo in repos}
        assert visible == {repo.pk for repo, level in levels.items() if level >= Level.READ}, name
        assert all(level <= who.permission.ceiling for level in levels.values()), name
        for repo, level in levels.items():
            role = roles.get((who.person_id, repo.owner_team_id))
            assert level_on(who, repo, role) is access_to(who, repo).granted, (name, repo)
            assert level is Level.NONE or who.covers(repo.pk)


@pytest.mark.parametrize(
    ("name", "private", "internal", "public"),
    [
        ("owner", Level.OWNER, Level.OWNER, Level.OWNER),
        ("admin", Level.ADMIN, Level.ADMIN, Level.ADMIN),
        ("member", Level.WRITE, Level.WRITE, Level.WRITE),
        ("viewer", Level.READ, Level.READ, Level.READ),
        ("staff", Level.OWNER, Level.OWNER, Level.OWNER),
        ("stranger", Level.NONE, Level.READ, Level.READ),
        ("inactive", Level.NONE, Level.NONE, Level.READ),
        ("anonymous", Level.NONE, Level.NONE, Level.READ),
    ],
)
def test_the_level_on_a_teams_repo(people, repos, name, private, internal, public):
    levels = {repo.visibility: access_of(people[name], repo).level for repo in repos[:3]}
    assert levels == {"private": private, "internal": internal, "public": public}


def test_ones_own_repo_is_ones_own_and_an_inactive_team_is_its_members(people, repos):
    for name, person in people.items():
        for repo in repos:
            if repo.owner_user is not None and repo.owner_user == person:
                assert access_of(person, repo).level is Level.OWNER
            if repo.owner_team is not None and repo.owner_team.slug == "idle":
                level = Level.OWNER if name in {"owner", "staff"} else Level.NONE
                assert access_of(person, repo).level is level


@pytest.mark.parametrize("name", WITH_TOKEN)
def test_the_api_answers_and_lists_as_the_level_says(api, people, repos, name):
    caller = api(people[name])
    others = {people[one] for one in (name, "stranger", "inactive")}  # all others are equal
    levels = {repo: access_of(people[name], repo).level for repo in repos}
    for repo in (one for one in repos if one.owner_user is None or one.owner_user in others):
        answer = caller.get(repo.api_path)
        if levels[repo] is Level.NONE:
            code = "forbidden" if repo.owner_user or repo.owner_team.is_active else "team_inactive"
            answer.fails(403, code)
        else:
            assert answer.gives()["caller_permission"] == levels[repo].name.lower()
    permissions = dict[str, str]()
    for owner in {repo.owner.path for repo in repos}:
        answer = caller.get(f"/{owner}/repos")
        if answer.status == 200:
            rows = answer.gives()["results"]
            permissions |= {row["path"]: row["caller_permission"] for row in rows}
    assert permissions == {at.path: level.name.lower() for at, level in levels.items() if level}


@pytest.fixture(params=["one by one", "together"])
def asked(request, monkeypatch):
    """Both ways in which lists across repositories select readable ones."""
    if request.param == "together":
        monkeypatch.setattr(pagination, "FEW_REPOS", 0)


FEWER = [
    pytest.param(name, marks=[] if name in {"admin", "staff", "stranger"} else pytest.mark.once)
    for name in WITH_TOKEN
]
"""Roles are values of one query, so PostgreSQL is asked only for a member, staff and a stranger."""
QUERIES = ["", "created_by=self", "created_by={stranger}", "participant={stranger}", "team=acme"]
QUERIES += ["team=idle", "status=open", "search=slow", "before=" + "9" * 17 + "-" + "f" * 32]


@pytest.mark.parametrize("path", ["/threads", "/pulls"])
@pytest.mark.parametrize("name", FEWER)
def test_a_list_across_repositories_holds_what_single_reads_give(
    api, people, repos, name, path, asked
):
    """With every filter, the list equals the lists of all repositories for the same person."""
    caller, own = api(people[name]), {}
    for repo in repos:
        answer = caller.get(f"{repo.api_path}{path}")
        if answer.status == 200:
            [own[repo.path]] = answer.gives()["results"]
            assert caller.get(own[repo.path]["api_url"]).status == 200
    for query in QUERIES:
        text = query.format(stranger=people["stranger"].username)
        results = caller.get(f"{path}?per_page=100&{text}").gives()["results"]
        expected = {at: row for at, row in own.items() if fits(query, at, name)}
        assert {row["repo_path"]: row for row in results} == expected, query
        assert len(results) == len(expected), query


def fits(query: str, path: str, name: str) -> bool:
    """Whether a filter of QUERIES includes the stranger's own threads and pulls."""
    if query.startswith("team="):
        return path.startswith(f"teams/{query.removeprefix('team=')}/")
    return query != "created_by=self" or name == "stranger"


FEW_CREDENTIALS = [
    pytest.param(one, marks=[] if one in CREDENTIALS[:3] else pytest.mark.once)
    for one in CREDENTIALS
]
"""The permission does not change the query. PostgreSQL is asked for those of one permission."""


@pytest.mark.parametrize("credential", FEW_CREDENTIALS, ids=str)
def test_a_list_across_repositories_keeps_to_what_a_credential_reads(
    people, repos, credential, asked
):
    rows = Thread.objects.filter(kind="discussion")
    for person in people.values():
        who = replace(principal_of(person), **credential)
        for narrow in (False, True):
            listed = pagination.CrossRepoList(rows, ["number"], who, is_narrow=narrow)
            page = listed.page(after=None, before=None, size=100, newest_first=True)
            paths_listed = {row.repo.path for row in page}
            assert paths_listed == {
                repo.path for repo in repos if access_to(who, repo).level >= Level.READ
            }


def test_the_teams_that_may_be_read_inside_are_those_with_a_level(people, repos):
    for name, person in people.items():
        if isinstance(person, User):
            readable = set(Team.objects.readable_by(principal_of(person)))
            assert readable == {
                team for team in Team.objects.all() if space_access_of(person, team).level
            }, name
