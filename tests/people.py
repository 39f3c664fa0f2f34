"""The people of a real server, made by the actions that the API calls."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connections, transaction
from django.db.utils import ConnectionHandler

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User

NAMES = ("alice", "bob", "carol", "sam", "vic")


def tokens_of(names: Iterable[str]) -> dict[str, str]:
    """A new token of each of these people, who are made if they do not exist; sam is staff."""
    found = {}
    for name in names:
        user = User.objects.filter(username=name).first()
        user = user or create_user(by=None, username=name, is_staff=name == "sam")
        found[name] = create_token(by=None, owner=user, name="tests")[1]
    return found


def begin(tables: Path, database: Path) -> dict[str, str]:
    """Make a SQLite database from a copy of these tables, with the people; returns their tokens."""
    database.parent.mkdir(mode=0o700)
    shutil.copy(tables, database)
    with connected_to(database), transaction.atomic():
        return tokens_of(NAMES)


@contextmanager
def connected_to(file: Path) -> Iterator[None]:
    """Inside, the thread uses this SQLite file as its database."""
    engine = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file)}
    own, there = connections["default"], ConnectionHandler({"default": engine})["default"]
    connections["default"] = there
    try:
        yield
    finally:
        there.close()
        connections["default"] = own
