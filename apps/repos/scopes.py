"""The event scope `repo:teams/<t>/<r>` and `repo:users/<u>/<r>`: one repository."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import NOT_GONE
from apps.accounts.principal import Principal
from apps.core.statements import Statement, padded, parameters
from apps.events.models import Key
from apps.repos.access import open_repo
from apps.repos.models import Repo, RepoPath

PATH = re.compile(r"((?:teams|users)/[A-Za-z0-9._-]{1,64})/([A-Za-z0-9._-]{1,100})")


def readable_repo(principal: Principal, text: str) -> Repo:
    """The repository by its present or former path; 404, 403, `ValueError` for another form."""
    match = PATH.fullmatch(text.lower())
    if match is None:
        raise ValueError(text)
    return open_repo(principal, match[1], match[2], former=True).repo


@cache
def _paths(count: int) -> Statement:
    named: dict[str, Any] = {"pk__in": parameters("ids", count)}
    rows = Repo.objects.filter(NOT_GONE, **named)
    return Statement(lambda: rows.values_list(*RepoPath.columns()), RepoPath)


class RepoEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        return Key("repo_id", readable_repo(principal, text).pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        some = padded(ids)
        rows = _paths(len(some)).all(ids=some)
        return {row.pk: row.path for row in rows}

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        return Repo.objects.visible_to(principal).values("pk")

    def gone(self) -> QuerySet[Any, Any]:
        return Repo.objects.gone().values("pk")
