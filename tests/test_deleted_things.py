"""No read of the API names a deleted repository, team or account, until it is restored.

The audit log does: staff and owners look up who deleted it, and what was done before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.actions import restore
from apps.accounts.models import Deletion
from tests.permission_cases import CELLS, Cell, PermissionCase
from tests.principals import principal_of
from tests.sample_data import SampleData

pytestmark = pytest.mark.once

LISTS = [
    "/events?scope=team:acme&kind=thread-created",
    "/events?scope=user:zoe&kind=thread-created",
    "/pulls?created_by=zoe",
    "/suggest-users?name=vera",
    "/teams?all=true&search=acme",
    "/threads?created_by=zoe",
    "/users/vera",
    "/users/vera/repos",
    "/users/vera/teams",
    "/users?search=vera",
]
"""Reads with filters, which the cells of `permissions.csv` lack."""
NEWS = {"repo-deleted", "team-deleted", "user-deleted"}
"""Kinds of events that name what was deleted."""


def reads() -> Iterator[Cell]:
    """A cell by staff of each read that answers JSON. `openapi.json` has the names in examples."""
    cells = {
        cell.operation: cell
        for cell in CELLS
        if (cell.who, cell.owner, cell.status) == ("St", "team", 200)
        and cell.operation.startswith("GET ")
        and not cell.operation.endswith(("/openapi.json", "/audit"))
    }
    # The two forks in these paths are the same one.
    return (cell for name, cell in cells.items() if "{fork_team_slug}" not in name)


class Site:
    """The answers of the API to staff."""

    def __init__(self, sample: SampleData, folders: Any) -> None:
        self.client = sample.api("sam")
        requests = [PermissionCase(cell, sample, folders).request() for cell in reads()]
        self.paths = [path for method, path in requests if method == "GET"] + LISTS

    def naming(self, *words: str) -> set[str]:
        """The paths whose answer has one of these words."""
        texts = {path: self.text(path) for path in self.paths}
        return {path for path, text in texts.items() if any(word in text for word in words)}

    def text(self, path: str) -> str:
        """The answer; empty for a refusal. Events of `NEWS` are left out."""
        answer = self.client.get(path)
        if answer.status != 200:
            return ""
        body = answer.json
        if isinstance(body, dict) and path.startswith("/events"):
            body = [one for one in body.get("results", ()) if one["kind"] not in NEWS]
        return str(body)


THINGS = {
    "a repository": ("/teams/acme/repos/private?confirm=acme/private", "teams/acme/private"),
    "a team": ("/teams/acme?confirm=acme", "teams/acme"),
    "an account": ("/users/vera?confirm=vera", "users/vera"),
}


@pytest.mark.parametrize(("address", "path"), THINGS.values(), ids=THINGS)
def test_no_read_names_it_until_it_is_restored(sample, db, tmp_path_factory, address, path):
    vera = sample.people["vera"]  # she has written no text, which would show her name
    sample.make.repo(vera, "own", by=vera)
    site = Site(sample, tmp_path_factory)
    words = path, f"'{path.partition('/')[2]}'"
    before = site.naming(*words)
    assert len(before) > 4
    site.client.delete(address).gives(202)
    assert site.naming(*words) == set()
    restore(principal=principal_of(sample.people["sam"]), deletion=Deletion.objects.get())
    assert site.naming(*words) == before
