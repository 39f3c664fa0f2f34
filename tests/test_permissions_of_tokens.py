"""Each row of `permissions.csv` with tokens of each permission, for all repositories, for that of
the row alone, and for another one alone.

A token does what its person may, or is refused and changes nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, User, digest, new_token
from apps.core.access import Permission
from apps.repos.models import Repo, Visibility
from tests.api import Api
from tests.permission_cases import MOVING, PEOPLE, Cell, PermissionCase
from tests.sample_data import SampleData
from tests.test_permissions import rows, undone, writing

pytestmark = pytest.mark.once


def client(user: User, permission: Permission, repo: Repo | None) -> Api:
    """A client with a token of this permission, limited to this repository if there is one."""
    text = new_token()
    token = ApiToken.objects.create(
        user=user,
        name=permission,
        digest=digest(text),
        permission=permission,
        is_limited=repo is not None,
        last_used_at=timezone.now() + dt.timedelta(days=1),
    )
    token.repos.add(*[repo] if repo else [])
    return Api(text)


def allows(cell: Cell, permission: Permission, reach: str) -> bool:
    """Whether the table allows it to a token."""
    needed, _, limited = cell.token.partition(" ")
    covered = reach == "all" or limited == "always" or (limited, reach) == ("this", "this")
    return permission.includes(Permission(needed)) and covered


def check(cell: Cell, api: Api, request: tuple[str, str], allowed: bool) -> None:
    method, path = request
    with writing() as written:
        answer = api.send(method, path, cell.body)
    if allowed:
        # A move of a branch in git is not undone for the tokens that are tried after the first.
        moves = cell.operation.endswith(MOVING)
        assert answer.status in ({cell.status, 409} if moves else {cell.status}), answer.json
        return
    assert written == []
    if cell.status >= 400:  # another refusal of the person may come first
        assert answer.status in {403, cell.status}, answer.json
    else:
        assert answer.status == 403, answer.json
        assert method == "HEAD" or (answer.json or {}).get("error") == "token_scope"


def tried(cells: list[Cell]) -> Iterator[Cell]:
    """A cell of a person who may do it, one of somebody who may not, and that of the bot."""
    active = [cell for cell in cells if PEOPLE[cell.who] and cell.status != 401]
    yield from [cell for cell in active if cell.who == "B"]
    active = [cell for cell in active if cell.who != "B"]
    yield from [cell for cell in active if cell.status < 400][-1:]
    yield from [cell for cell in active if cell.status >= 400][:1]


@pytest.mark.parametrize("cells", list(rows()))
def test_a_token_may_do_what_the_table_says(
    cells: list[Cell], sample: SampleData, db: None, tmp_path_factory: Any, case: Any
) -> None:
    elsewhere = sample.repos["user", Visibility.PUBLIC]
    for cell in tried(cells):
        with undone():
            permission_case = PermissionCase(cell, sample, tmp_path_factory)
            request = permission_case.request()
            if permission_case.repo == elsewhere:
                elsewhere = sample.repos["team", Visibility.PUBLIC]
            repos = {"all": None, "this": permission_case.repo, "another": elsewhere}
            for permission in Permission:
                for reach, repo in repos.items():
                    with case(f"{cell} {permission} {reach}"), undone():
                        api = client(permission_case.person, permission, repo)
                        check(cell, api, request, allows(cell, permission, reach))
