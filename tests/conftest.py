"""The cast and the tools of the tests: alice owns team acme, bob is a member, carol a stranger,
sam is staff.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from django.core.management.commands import flush
from django.db import transaction
from django.test import override_settings
from hypothesis import settings as examples

from apps.accounts.models import User
from apps.events.models import Event
from apps.repos.models import Repo
from apps.site import limits
from apps.teams.models import Role, Team
from tests.api import Api
from tests.gitperson import Git
from tests.make import Make
from tests.server import Server
from tests.world import World


class Events(Protocol):
    def __call__(self, *kinds: str) -> AbstractContextManager[list[Event]]: ...


@pytest.fixture(scope="session", autouse=True)
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for the git repositories of all tests: their names are random."""
    folder = tmp_path_factory.mktemp("repositories")
    with override_settings(REPOSITORIES_DIR=folder):
        yield folder


@pytest.fixture(autouse=True)
def nothing_charged_yet() -> None:
    """Rate limits are kept in memory: each test begins with those of its own database."""
    limits.rulebook.forget()
    limits.counters.cache_clear()


@pytest.fixture
def make(db: None) -> Make:
    return Make()


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """One for all tests of a module, who also ask for `db`: what each changes is rolled back."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield World()
        transaction.set_rollback(True)


@pytest.fixture
def alice(make: Make) -> User:
    return make.user("alice")


@pytest.fixture
def bob(make: Make) -> User:
    return make.user("bob")


@pytest.fixture
def carol(make: Make) -> User:
    return make.user("carol")


@pytest.fixture
def sam(make: Make) -> User:
    return make.user("sam", is_staff=True)


@pytest.fixture
def acme(make: Make, alice: User, bob: User) -> Team:
    """A team owned by alice with bob as a member."""
    team = make.team("acme", owner=alice)
    make.member(team, bob, Role.MEMBER)
    return team


@pytest.fixture(params=["team", pytest.param("user", marks=pytest.mark.slow)])
def repo(request: pytest.FixtureRequest, make: Make, alice: User) -> Repo:
    """A private repository of alice's, once under her team acme (bob is a member), once her own.

    A plain run tries the first, CI both (docs/decisions/0003).
    """
    if request.param == "user":
        return make.repo(alice, "api", by=alice)
    return make.repo(request.getfixturevalue("acme"), "api", by=alice)


@pytest.fixture
def team_repo(make: Make, acme: Team, alice: User) -> Repo:
    """A private repository of team acme."""
    return make.repo(acme, "api", by=alice)


@pytest.fixture
def api(make: Make) -> Any:
    """`api(alice).get(url).gives(200)`; `api()` is anonymous."""
    return lambda user=None: Api(make.token(user) if user else None)


@pytest.fixture
def events(db: None) -> Events:
    """`with events("reply-deleted"):` exactly these kinds were recorded inside, in order."""

    @contextmanager
    def recorded(*kinds: str) -> Iterator[list[Event]]:
        before = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        found: list[Event] = []
        yield found
        found += Event.objects.filter(id__gt=before).order_by("id")
        assert [event.kind for event in found] == list(kinds)

    return recorded


@pytest.fixture(scope="session", autouse=True)
def plain_flush() -> Iterator[None]:
    """Between two transactional tests Django would make the rows of permissions anew, of which
    nothing here asks (apps/core/admin): a tenth of a second each time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """A plain run tries a quarter of the examples that are made up, one with slow tests all.

    How long one takes says nothing: the machine may be busy.
    """
    plain = "not slow" in config.option.markexpr
    examples.register_profile("tests", max_examples=25 if plain else 100, deadline=None)
    examples.load_profile("tests")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through thousands of collected tests each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests of one real server to one worker, and all of a file else: what they share is
    made once.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByServer(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            found = re.search(r"[\[-](daphne|gunicorn)[]-]", nodeid)
            return found[1] if found else nodeid.partition("::")[0]

    return ByServer(config, log)


@pytest.fixture(
    scope="session", params=["daphne", pytest.param("gunicorn", marks=pytest.mark.slow)]
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A real server of each kind that answers API and git, one for the whole run.

    A plain run tries the embedded one, CI both (docs/decisions/0003).
    """
    with Server(tmp_path_factory.mktemp(request.param), request.param) as running:
        yield running


@pytest.fixture
def path(server: Server) -> str:
    """A fresh private repository of alice's: `users/alice/…` under gunicorn, else `teams/…/api`.

    One owner for each server: all four together would show nothing more, for twice the time.
    """
    alice, name = server.api("alice"), f"r{uuid4().hex[:12]}"
    if server.kind == "gunicorn":
        alice.post("/users/alice/repos", name=name, slug=name).gives(201)
        return f"users/alice/{name}"
    alice.post("/teams", name=name, slug=name).gives(201)
    alice.post(f"/teams/{name}/repos", name="Api", slug="api").gives(201)
    return f"teams/{name}/api"


@pytest.fixture
def git(server: Server, path: str, tmp_path: Path):
    """`git("alice")`: a work tree of hers that speaks to the repository."""

    def work_tree(person: str | None = "alice") -> Git:
        token = server.token(person) if person else None
        return Git(tmp_path / uuid4().hex, f"{server.url}/{path}.git", token)

    return work_tree
