"""The cast of a real server: people who were made by the same actions as anybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connections, transaction
from django.db.utils import ConnectionHandler

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User

CAST = ("alice", "bob", "carol", "sam", "vic")


def tokens_of(names: Iterable[str]) -> dict[str, str]:
    """A token of each of these people, who are made when there are none; sam is staff."""
    found = {}
    for name in names:
        user = User.objects.filter(username=name).first()
        user = user or create_user(by=None, username=name, is_staff=name == "sam")
        found[name] = create_token(by=None, owner=user, name="tests")[1]
    return found


def begin(tables: Path, database: Path) -> dict[str, str]:
    """Begin a SQLite database with a copy of these tables and the cast, whose tokens it returns."""
    database.parent.mkdir(mode=0o700)
    shutil.copy(tables, database)
    with speaking_to(database), transaction.atomic():
        return tokens_of(CAST)


@contextmanager
def speaking_to(file: Path) -> Iterator[None]:
    """Meanwhile this SQLite file is the database of the thread."""
    engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}
    own, there = connections["default"], ConnectionHandler({"default": engine})["default"]
    connections["default"] = there
    try:
        yield
    finally:
        there.close()
        connections["default"] = own
