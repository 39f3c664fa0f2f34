"""The people of a real server, created by the actions of the API."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from django.db import transaction

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from config.environment import make_key
from config.installation import adopt
from tests.databases import Tables, connected_to, data_in

NAMES = ("alice", "bob", "carol", "sam", "vic")


def tokens_of(names: Iterable[str]) -> dict[str, str]:
    """A new token for each of these people, who are created if missing; sam is staff."""
    found = {}
    for name in names:
        user = User.objects.filter(username=name).first()
        user = user or create_user(principal=None, username=name, is_staff=name == "sam")
        found[name] = create_token(principal=None, owner=user, name="tests")[1]
    return found


def begin(tables: Tables, file: Path, url: str) -> dict[str, str]:
    """Add the people to a database with these tables, and mark its folder; returns their tokens.

    It is the PostgreSQL database with this URL, which has the tables, or without a URL a new SQLite
    file.
    """
    with data_in(file.parent):
        if not url:
            shutil.copy(tables, file)
        with connected_to(file, url), transaction.atomic():
            adopt()
            make_key(file.parent)
            return tokens_of(NAMES)
