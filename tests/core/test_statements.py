"""Statements return the rows of the equivalent querysets."""

from __future__ import annotations

import datetime as dt
import gc
import itertools
import threading
import weakref
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model
from django.http import Http404
from django.utils import timezone

from apps.accounts.authentication import SentToken, token_of
from apps.accounts.models import ApiToken, User
from apps.browse.refs import BY_NAME, list_branches
from apps.core.access import Level
from apps.core.errors import Forbidden
from apps.core.statements import padded, values_of
from apps.pulls.models import Pull
from apps.pulls.queries import PULLS, get_pull, list_pulls
from apps.repos.access import RepoAccess, open_repo
from apps.repos.models import Ref, Repo, Visibility
from apps.repos.queries import list_repos
from apps.teams.access import find_team
from apps.teams.models import Role, Team
from apps.threads.models import ANCHORED_ROW, Reply, Thread
from apps.threads.queries import THREADS, get_reply, get_thread, list_replies, list_threads
from tests.factories import MemberFactory, UserFactory
from tests.principals import access_of, principal_of, space_access_of


def stored(row: Model) -> dict[str, tuple[type, Any]]:
    """All columns of a row with their types, and its state as a stored row."""
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    kept = {"adding": row._state.adding, "db": row._state.db}
    return {name: (type(value), value) for name, value in {**values, **kept}.items()}


def assert_same(row: Model, manager: Any, **relations: Model) -> None:
    """The row equals that of the ORM in each column, and so do its related rows."""
    assert stored(row) == stored(manager.get(pk=row.pk))
    for name, related in relations.items():
        assert getattr(type(row), name).is_cached(row)
        assert stored(getattr(row, name)) == stored(type(related)._base_manager.get(pk=related.pk))


def test_a_token_comes_with_its_person(make, alice, django_assert_num_queries):
    for filled in (False, True):
        if filled:
            soon = timezone.now() + dt.timedelta(days=1)
            ApiToken.objects.update(expires_at=soon, last_used_at=timezone.now())
            User.objects.update(last_login=timezone.now(), email="a@b.org", email_key="a@b.org")
        with django_assert_num_queries(1):
            token = token_of(make.token(alice))
        assert token is not None
        assert_same(token, ApiToken.objects, user=alice)
    assert token_of("ght_unknown") is None


def test_a_token_in_use_is_read_anew_with_its_person(make, alice, django_assert_num_queries):
    authenticated = token_of(make.token(alice))
    assert authenticated is not None
    token = SentToken(authenticated, authenticated.digest)
    with django_assert_num_queries(1):
        person = token.holder()
    assert person is not None
    assert stored(person) == stored(User.objects.get(pk=alice.pk))
    for row, change in (
        (User.objects, {"is_active": False}),
        (ApiToken.objects, {"revoked_at": timezone.now()}),
    ):
        row.update(**change)
        assert token.holder() is None
        row.update(is_active=True) if row is User.objects else row.update(revoked_at=None)
    ApiToken.objects.all().delete()
    assert token.holder() is None


@pytest.fixture
def people(alice, bob, carol, sam, acme) -> list[User | AnonymousUser]:
    """People with each role in acme, and without one."""
    roles = {"ada": Role.ADMIN, "vera": Role.VIEWER}
    for name, role in roles.items():
        MemberFactory.create(team=acme, user=UserFactory.create(username=name), role=role)
    ina = UserFactory.create(username="ina")
    ina.is_active = False
    return [alice, bob, carol, sam, ina, AnonymousUser(), *User.objects.filter(username__in=roles)]


def test_a_team_comes_with_the_callers_level(people, acme, django_assert_num_queries):
    for person in people:
        with django_assert_num_queries(1):
            access = find_team(principal_of(person), "acme")
        assert_same(access.team, Team.objects)
        assert access.level is space_access_of(person, acme).level
    with pytest.raises(Http404):
        find_team(principal_of(people[0]), "nobody")


@pytest.mark.parametrize("owned_by", ["team", "user"])
@pytest.mark.parametrize("visibility", Visibility)
def test_a_repository_comes_with_its_owner_and_the_callers_level(
    people, acme, alice, make, owned_by, visibility, django_assert_num_queries
):
    owner = acme if owned_by == "team" else alice
    made = make.repo(owner, "api", by=alice, visibility=visibility)
    Repo.objects.update(pushed_at=timezone.now(), description="Of both.")
    for active in (True, False):
        Team.objects.update(is_active=active)
        stale = Repo.objects.get(pk=made.pk)
        for person in people:
            with django_assert_num_queries(1):
                access = opened(person, owner.path, "api")
            expected = access_of(person, stale)
            if access is None:
                assert expected.level is Level.NONE
                continue
            assert access.repo.owner == owner
            assert_same(access.repo, Repo.objects, **{f"owner_{owned_by}": owner})
            assert access.level is expected.level
    with pytest.raises(Http404):
        open_repo(principal_of(people[0]), owner.path, "none", needs=Level.NONE)


@pytest.mark.parametrize("owned_by", ["team", "user"])
def test_access_that_is_renewed_is_what_one_would_be_given_now(
    people, acme, alice, make, owned_by, django_assert_num_queries
):
    owner = acme if owned_by == "team" else alice
    repo = make.repo(owner, "api", by=alice)
    held = [access_of(person, repo) for person in people]
    for visibility, active in itertools.product(Visibility, (True, False)):
        Repo.objects.update(visibility=visibility)
        Team.objects.update(is_active=active)
        stale = Repo.objects.get(pk=repo.pk)
        for access in held:
            renewed = access.principal.renewed()
            expected = access_of((renewed and renewed.person) or AnonymousUser(), stale)
            with django_assert_num_queries(1 if access.principal.person is None else 2):
                found = access.renewed()
                assert found.repo.owner == owner
            assert_same(found.repo, Repo.objects, **{f"owner_{owned_by}": owner})
            assert (found.level, found.requested) == (expected.level, expected.requested)
    Repo.objects.all().delete()
    with pytest.raises(Http404):
        held[0].renewed()


def opened(person: Any, owner: str, slug: str) -> RepoAccess | None:
    """The access of a person; None if an inactive team closes the repository to them."""
    try:
        return open_repo(principal_of(person), owner, slug, needs=Level.NONE)
    except Forbidden:
        return None


def test_a_thread_comes_with_its_author_and_its_repository(
    make, acme, alice, bob, django_assert_num_queries
):
    repo = make.repo(acme, "api", by=alice)
    made = make.thread(repo, by=bob)
    for closed_at in (None, timezone.now()):
        Thread.objects.update(closed_at=closed_at)
        with django_assert_num_queries(1):
            thread = get_thread(repo, made.number)
            assert thread.repo is repo
        assert_same(thread, Thread.objects, created_by=bob)
    with pytest.raises(Http404):
        get_thread(make.repo(acme, "web", by=alice), made.number)
    Thread.objects.update(deleted_at=timezone.now())
    with pytest.raises(Http404):
        get_thread(repo, made.number)


def test_a_reply_comes_with_its_author_and_its_thread(
    make, acme, alice, bob, django_assert_num_queries
):
    thread = make.thread(make.repo(acme, "api", by=alice), by=alice)
    made = make.reply(thread, by=bob)
    states = itertools.product((None, timezone.now()), (0, 2))
    for deleted_at, below in states:
        links = [{"kind": "url", "target": "https://example.org"}]
        fields = {"deleted_at": deleted_at, "edited_at": deleted_at, "live_descendants": below}
        Reply.objects.update(**fields, links=links if deleted_at else [])
        with django_assert_num_queries(1):
            reply = get_reply(thread, made.number, shown=False)
            assert reply.thread is thread
        assert_same(reply, Reply.objects, created_by=bob)
        assert reply.is_shown == bool(list_replies(thread)[0:1])
        with nullcontext() if reply.is_shown else pytest.raises(Http404):
            get_reply(thread, made.number, shown=True)
    with pytest.raises(Http404):
        get_reply(thread, made.number + 1, shown=False)


def test_the_replies_of_a_thread_come_as_rows_in_tree_order(
    make, acme, alice, bob, django_assert_num_queries
):
    thread = make.thread(make.repo(acme, "api", by=alice), by=alice)
    first, second = (make.reply(thread, by=bob) for _ in range(2))
    below = make.reply(thread, by=alice, to=first)
    links = [{"kind": "url", "target": "https://example.org"}]
    Reply.objects.filter(pk=below.pk).update(edited_at=timezone.now(), links=links)
    with django_assert_num_queries(1):
        found = list_replies(thread)[0:9]
    assert [row[0] for row in found] == [first.number, below.number, second.number]
    stored = thread.replies.select_related("created_by").order_by("path")
    for row, reply in zip(found, stored, strict=True):
        assert [*row] == values_of(reply, ANCHORED_ROW)
        assert [*map(type, row)] == [*map(type, values_of(reply, ANCHORED_ROW))]
    assert list_replies(thread)[1:2] == found[1:2]


def test_a_pull_comes_with_its_thread_and_its_people(
    make, acme, alice, bob, django_assert_num_queries
):
    repo = make.repo(acme, "api", by=alice)
    made = make.pull(repo, by=bob)
    for merger in (None, alice):
        Pull.objects.update(merged_by=merger, merged_at=merger and timezone.now())
        with django_assert_num_queries(1):
            pull = get_pull(repo, made.number)
            assert (pull.repo, pull.merged_by) == (repo, merger)
        people = {"merged_by": merger} if merger else {}
        assert_same(pull, Pull.objects, thread=made.thread, **people)
        assert_same(pull.thread, Thread.objects, created_by=bob)
    with pytest.raises(Http404):
        get_pull(repo, made.number + 1)


def test_the_list_of_pulls_is_what_the_orm_gives(make, acme, alice, bob, django_assert_num_queries):
    repo = make.repo(acme, "api", by=alice)
    for merger in (None, alice, bob):
        made = make.pull(repo, by=bob)
        Pull.objects.filter(pk=made.pk).update(
            merged_by=merger, merged_at=merger and timezone.now()
        )
    make.pull(make.repo(acme, "web", by=alice), by=bob)
    with django_assert_num_queries(1):
        found = PULLS.of(repo=repo.pk)[0:9]
    stored = [*list_pulls(repo.pk)]
    assert len(found) == 3
    for row, expected in zip(found, stored, strict=True):
        assert row == expected
        assert [*map(type, row)] == [*map(type, expected)]
    assert PULLS.of(repo=repo.pk)[1:2] == found[1:2]


def test_plain_lists_are_what_the_orm_gives(make, acme, alice, bob):
    repo, personal = make.repo(acme, "api", by=alice), make.repo(bob, "own", by=bob)
    make.repo(acme, "web", by=alice)
    for slug in "ab":
        make.thread(repo, by=bob, title=slug)
        Ref.objects.create(repo=repo, full_name=f"refs/heads/{slug}", sha=slug * 40, pushed_by=bob)
    make.thread(personal, by=bob)
    pairs: list[tuple[Any, Any]] = [
        (THREADS.of(repo=repo.pk), list_threads(repo.pk)),
        (BY_NAME.of(repo=repo.pk), list_branches(repo.pk)),
    ]
    for owner in (acme, bob):
        space = space_access_of(bob, owner)
        pairs.append((list_repos(space), list_repos(space, to_filter=True)))
    for statement, queryset in pairs:
        expected = [*queryset]
        assert expected
        assert statement[:9] == expected
        assert [*map(type, statement[:9][0])] == [*map(type, expected[0])]
        assert getattr(statement[:9][0], "_fields", None) == getattr(expected[0], "_fields", None)


def test_padded_values_select_the_same_rows():
    assert [len(padded(range(count))) for count in (0, 1, 2, 3, 4, 5, 8, 9)] == [
        0, 1, 2, 4, 4, 8, 8, 16,
    ]  # fmt: skip
    assert padded("abc") == [*"abcc"]


@pytest.mark.django_db(transaction=True)
def test_a_connection_goes_with_its_thread(make, alice):
    left = []

    def ask() -> None:
        assert token_of(make.token(alice)) is not None
        left.append(weakref.ref(connections[DEFAULT_DB_ALIAS]))
        connections.close_all()

    for _ in range(3):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    gc.collect()
    assert [each() for each in left] == [None] * 3
