"""Data for many tests, created once: rows, repositories on disk, and their objects.

Each test gets a copy, in a tenth of the time that the actions take. The fixture `builds` of a
folder or module names its data. The fixture `things` is a dict of these objects; `given(name)`
makes one of them a fixture.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models.sql import InsertQuery
from django.test import override_settings
from django.utils import timezone

from apps.accounts.models import ApiToken
from tests.by_actions import MakeByActions
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.gitclient import Clone

Statement = tuple[str, Any]
Things = dict[str, Any]
Build = Callable[[MakeByActions, Path], Things]
"""Creates everything by actions, with clones in this folder; returns objects by name."""


class PreparedData:
    """The rows of `build`, and its files in `folder`; it runs once, on first use."""

    def __init__(self, folder: Path, build: Build) -> None:
        self.folder, self.build = folder, build
        self.things: tuple[Things, dict[int, str]] = {}, {}
        self.statements: list[Statement] = []

    @contextmanager
    def load(self, make: MakeByActions, folder: Path) -> Iterator[Things]:
        """Insert the rows, copy the files into this folder and give `make` the tokens."""
        if not self.statements:
            self.prepare()
        shutil.copytree(self.folder, folder, copy_function=shutil.copyfile)
        with connection.cursor() as cursor:
            for statement in self.statements:
                cursor.execute(*statement)
        things, make.tokens = copy.deepcopy(self.things)
        for clone in things.values():
            if isinstance(clone, Clone):
                clone.folder = folder / clone.folder.relative_to(self.folder)
        with repositories_in(folder):
            yield things

    def prepare(self) -> None:
        """Run `build` and store its result; the database is empty afterwards, as before."""
        make = MakeByActions()
        with transaction.atomic(), repositories_in(self.folder):
            self.things = self.build(make, self.folder), make.tokens
            # No test should write the first use of a token.
            ApiToken.objects.update(last_used_at=timezone.now())
            self.statements = insert_statements()
            transaction.set_rollback(True)


def repositories_in(folder: Path) -> override_settings:
    return override_settings(REPOSITORIES_DIR=folder / "repositories")


def insert_statements() -> list[Statement]:
    """The INSERT statements for all our rows, except those of `site` from the migrations."""
    found: list[Statement] = []
    for model in apps.get_models():
        ours = model.__module__.startswith("apps.") and model._meta.app_label != "site"
        if ours and (rows := list(model._base_manager.all())):
            query = InsertQuery(model)
            fields = [one for one in model._meta.concrete_fields if not one.generated]
            query.insert_values(fields, rows, raw=True)
            found += query.get_compiler(connection=connection).as_sql()
    return found


def with_people(make: MakeByActions, folder: Path) -> Things:
    """alice's team acme has bob as a member; carol is a stranger, sam is staff."""
    people = {name: UserFactory.create(username=name) for name in ("alice", "bob", "carol")}
    people["sam"] = UserFactory.create(username="sam", staff=True)
    for person in people.values():
        make.token(person)
    team = TeamFactory.create(slug="acme", owner=people["alice"])
    MemberFactory.create(team=team, user=people["bob"])
    return {**people, "acme": team}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Build], PreparedData]:
    """`prepared(build)`: the data of this build, shared by all tests."""
    return cache(lambda build: PreparedData(tmp_path_factory.mktemp("prepared"), build))


@pytest.fixture
def things(
    request: pytest.FixtureRequest,
    prepared: Callable[[Build], PreparedData],
    builds: dict[str, Build],
    make: MakeByActions,
    tmp_path: Path,
) -> Iterator[Things]:
    """The objects at the beginning of a test: those of the first of `builds` whose name is a
    fixture of the test, else of `with_people`. A test that commits gets new data, because commits
    have effects.
    """
    build = next(
        (build for name, build in builds.items() if name in request.fixturenames), with_people
    )
    marker = request.node.get_closest_marker("django_db")
    if marker and marker.kwargs.get("transaction"):
        yield build(make, tmp_path)
    else:
        with prepared(build).load(make, tmp_path / "prepared") as things:
            yield things


def given(name: str) -> Any:
    """A fixture with the object of this name in `things`."""
    return pytest.fixture(name=name)(lambda things: things[name])
