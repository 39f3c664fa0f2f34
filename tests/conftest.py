"""The people and the tools of the tests.

alice owns team acme, bob is a member, carol a stranger, and sam is staff.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.management.commands import flush
from django.db import connection, transaction
from django.test import override_settings
from hypothesis import settings as examples

from apps.accounts.models import User
from apps.events.models import Event
from apps.git import batch
from apps.repos.models import Repo
from apps.site import limits
from apps.site.counters import process_counters
from apps.site.models import SiteSettings
from apps.teams.models import Team
from tests import prepared_data
from tests.api import Api
from tests.by_actions import MakeByActions
from tests.databases import Tables, drop, make_tables
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.gitclient import Git
from tests.prepared_data import Build, PreparedData
from tests.sample_data import SampleData, with_sample_data
from tests.server import Server


class Events(Protocol):
    def __call__(self, *kinds: str) -> AbstractContextManager[list[Event]]: ...


@pytest.fixture(scope="session")
def tables(
    django_db_modify_db_settings: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Tables]:
    """Empty tables, created by the first worker that needs them, and removed by the last."""
    folder = tmp_path_factory.getbasetemp()
    of_all = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    users, made = of_all / "tables.users", of_all / "tables"
    own = users / str(os.getpid())
    with locked(users.with_suffix(".lock")), django_db_blocker.unblock():
        users.mkdir(exist_ok=True)
        if not made.exists():
            made.write_text(str(make_tables(of_all)))
        own.touch()
    name = made.read_text()
    shutil.copy(of_all / "data" / "installation", settings.DATA_DIR)
    yield name if connection.vendor == "postgresql" else Path(name)
    with locked(users.with_suffix(".lock")):
        own.unlink()
        if connection.vendor == "postgresql" and not any(users.iterdir()):
            made.unlink()
            drop(name)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """One process at a time runs the block."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb(tables: Tables) -> bool:
    """Each worker begins with a copy of the tables; Django does so only on PostgreSQL."""
    if isinstance(tables, Path):
        shutil.copy(tables, connection.settings_dict["TEST"]["NAME"])
        return True
    connection.settings_dict["TEST"]["TEMPLATE"] = tables
    return False


@pytest.fixture(scope="session", autouse=True)
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for the git repositories of all tests: their names are random."""
    folder = tmp_path_factory.mktemp("repositories")
    with override_settings(REPOSITORIES_DIR=folder):
        yield folder


@pytest.fixture(autouse=True)
def nothing_throttled_yet() -> None:
    """Rate limits are cached: each test begins with those of its database."""
    limits.limit_cache.invalidate()
    limits.counters.cache_clear()
    process_counters.cache_clear()


@pytest.fixture(autouse=True)
def no_git_stays() -> None:
    """Each test begins without gits that stayed: tests count the gits that are started."""
    batch.end_idle()


@pytest.fixture
def make(db: None) -> MakeByActions:
    return MakeByActions()


prepared = prepared_data.prepared


@pytest.fixture(scope="module")
def sample(
    django_db_setup: None,
    django_db_blocker: Any,
    prepared: Callable[[Build], PreparedData],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SampleData]:
    """One for all tests of a module. They also use `db`, which rolls back their changes."""
    folder = tmp_path_factory.mktemp("sample") / "prepared"
    with django_db_blocker.unblock(), transaction.atomic():
        with prepared(with_sample_data).load(MakeByActions(), folder) as things:
            SiteSettings.load()  # a test that commits may have deleted the row of the migrations
            yield things["sample"]
        transaction.set_rollback(True)


def person(name: str, **fields: bool) -> Any:
    """A fixture with a person of this name, who has a token."""

    def created(make: MakeByActions) -> User:
        return make.with_token(UserFactory.create(username=name, **fields))

    return pytest.fixture(name=name)(created)


alice, bob, carol, sam = person("alice"), person("bob"), person("carol"), person("sam", staff=True)


@pytest.fixture
def acme(alice: User, bob: User) -> Team:
    """A team owned by alice with bob as a member."""
    team = TeamFactory.create(slug="acme", owner=alice)
    MemberFactory.create(team=team, user=bob, added_by=alice)
    return team


@pytest.fixture(params=["team", pytest.param("user", marks=[pytest.mark.slow, pytest.mark.once])])
def repo(request: pytest.FixtureRequest, make: MakeByActions, alice: User) -> Repo:
    """A private repository of alice's: first in her team acme (bob is a member), then her own. A
    plain run uses the first, and CI on SQLite both (docs/decisions/0003).
    """
    return repo_below(request, make, alice)


def repo_below(request: pytest.FixtureRequest, make: MakeByActions, alice: User) -> Repo:
    """The repository of a fixture with both owners."""
    owner = alice if request.param == "user" else request.getfixturevalue("acme")
    return make.repo(owner, "api", by=alice)


@pytest.fixture
def team_repo(make: MakeByActions, acme: Team, alice: User) -> Repo:
    """A private repository of team acme."""
    return make.repo(acme, "api", by=alice)


@pytest.fixture
def api(make: MakeByActions) -> Any:
    """`api(alice).get(url).gives(200)`; `api()` is anonymous."""
    return lambda user=None: Api(make.token(user) if user else None)


@pytest.fixture
def events(db: None) -> Events:
    """`with events("reply-deleted"):` the block must record exactly these kinds, in order."""

    @contextmanager
    def recorded(*kinds: str) -> Iterator[list[Event]]:
        before = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        found: list[Event] = []
        yield found
        found += Event.objects.filter(id__gt=before).order_by("id")
        assert [event.kind for event in found] == list(kinds)

    return recorded


@pytest.fixture
def case(subtests: pytest.Subtests) -> Callable[[str], AbstractContextManager[None]]:
    """`with case("bob"):` reports a subtest of this name if it fails, and the next one runs. Passed
    cases are not reported: a table has a thousand, and a report takes as long as a short request.
    """

    @contextmanager
    def tried(name: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # the report of any error has the name of the case
            with subtests.test(name):
                raise

    return tried


@pytest.fixture(scope="session", autouse=True)
def plain_flush() -> Iterator[None]:
    """Django would create the rows of permissions again after each transactional test, a tenth of a
    second, and no test needs them (apps/core/admin.py). On PostgreSQL it would truncate all tables,
    which takes as long; deleting the few rows is faster.
    """

    def deletions(_: Any, database: Any, *__: Any, **___: Any) -> list[str]:
        tables = database.introspection.django_table_names(only_existing=True, include_views=False)
        return [f"DELETE FROM {database.ops.quote_name(table)}" for table in tables]  # noqa: S608 - our own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        patch.setattr(flush, "sql_flush", deletions)
        yield


def pytest_configure(config: pytest.Config) -> None:
    """CI and plain runs try a quarter of the generated examples. There is no deadline for one: the
    machine may be busy.
    """
    few = "CI" in os.environ or "not slow" in config.option.markexpr
    examples.register_profile("tests", max_examples=25 if few else 100, deadline=None)
    examples.load_profile("tests")
    # Reference counting frees nearly all objects of tests: look for cycles less often.
    gc.set_threshold(10_000, 20, 100)


def pytest_itemcollected(item: pytest.Item) -> None:
    """On PostgreSQL tests with the mark `one_server` run with gunicorn alone."""
    case = getattr(item, "callspec", None)
    if item.get_closest_marker("one_server") and case and case.params.get("server") == "serve":
        item.add_marker("once")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from going through thousands of collected tests each time."""
    gc.collect()
    gc.freeze()


def unit_of(nodeid: str) -> str:
    """The unit of work of a worker: all tests of one real server, else all tests of a file, because
    they share objects that are created once.
    """
    found = re.search(r"[\[-](serve|gunicorn)[]-]", nodeid)
    return found[1] if found else nodeid.partition("::")[0]


LONGEST = [
    "gunicorn",
    "serve",
    "tests/web/test_browser.py",
    "tests/scenarios/test_nodes.py",
    "tests/scenarios/test_unplugged.py",
    "tests/scenarios/test_merge_bot.py",
    "tests/repos/test_git_silence.py",
    "tests/scenarios/test_soak.py",
    "tests/web/test_keyboard_and_colours.py",
    "tests/web/test_links.py",
    "tests/clients/test_generated.py",
    "tests/scenarios/test_first_day.py",
    "tests/scenarios/test_proxy.py",
    "tests/scenarios/test_api_docs.py",
    "tests/test_schemathesis.py",
    "tests/pulls/test_merge_queue.py",
    "tests/test_setup.py",
    "tests/web/test_live.py",
    "tests/web/test_budgets.py",
    "tests/repos/test_many_refs.py",
    "tests/pulls/test_dying_merges.py",
]
"""Units with few tests that take long."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest units first: none should start when the others have ended."""
    tests = Counter(unit_of(item.nodeid) for item in items)

    def place(item: pytest.Item) -> tuple[int, int]:
        unit = unit_of(item.nodeid)
        return LONGEST.index(unit) if unit in LONGEST else len(LONGEST), -tests[unit]

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    # xdist has no types (pyproject.toml), and its class is Any.
    class ByUnit(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)


@pytest.fixture(scope="session")
def new_server(tables: Tables, django_db_blocker: Any) -> Callable[..., Server]:
    """`with new_server(folder, "gunicorn") as server:` has the people of tests/people.py: other
    tests try the first start.
    """

    def prepared(folder: Path, kind: str = "serve", **environment: Any) -> Server:
        with django_db_blocker.unblock():
            return Server(folder, kind, tables=tables, **environment)

    return prepared


@pytest.fixture(scope="session", params=["serve", pytest.param("gunicorn", marks=pytest.mark.slow)])
def server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    new_server: Callable[..., Server],
) -> Any:
    """A real server of each kind for API and git, one for the whole run. A plain run uses the
    embedded one, and CI both (docs/decisions/0003).
    """
    with new_server(tmp_path_factory.mktemp(request.param), request.param) as running:
        yield running


@pytest.fixture(scope="session")
def owner(server: Server) -> str:
    """The owner of the repositories at `path`: alice under gunicorn, else her team. All four
    combinations would take twice the time, and show nothing more.
    """
    if server.kind == "gunicorn":
        return "users/alice"
    server.api("alice").post("/teams", name="Repositories", slug="repositories").gives(201)
    return "teams/repositories"


@pytest.fixture
def path(server: Server, owner: str) -> str:
    """A fresh private repository of alice's: `users/alice/…` or `teams/repositories/…`."""
    slug = f"r{uuid4().hex[:12]}"
    server.api("alice").post(f"/{owner}/repos", name="Api", slug=slug).gives(201)
    return f"{owner}/{slug}"


@pytest.fixture
def git(server: Server, path: str, tmp_path: Path):
    """`git("alice")`: a work tree of alice's, with the repository at `path` as its remote."""

    def work_tree(person: str | None = "alice") -> Git:
        token = server.token(person) if person else None
        return Git(tmp_path / uuid4().hex, f"{server.url}/{path}.git", token)

    return work_tree
