"""The people of a real server, made by the actions that the API calls."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from django.db import transaction

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from tests.databases import Tables, connected_to

NAMES = ("alice", "bob", "carol", "sam", "vic")


def tokens_of(names: Iterable[str]) -> dict[str, str]:
    """A new token of each of these people, who are made if they do not exist; sam is staff."""
    found = {}
    for name in names:
        user = User.objects.filter(username=name).first()
        user = user or create_user(by=None, username=name, is_staff=name == "sam")
        found[name] = create_token(by=None, owner=user, name="tests")[1]
    return found


def begin(tables: Tables, file: Path, url: str) -> dict[str, str]:
    """Add the people to a database that begins with these tables; returns their tokens.

    It is the one of PostgreSQL's with this URL, which has them, or without a URL this SQLite file,
    which is made.
    """
    if not url:
        file.parent.mkdir(mode=0o700)
        shutil.copy(tables, file)
    with connected_to(file, url), transaction.atomic():
        return tokens_of(NAMES)
