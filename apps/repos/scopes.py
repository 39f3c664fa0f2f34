"""The event scope `repo:teams/<t>/<r>` and `repo:users/<u>/<r>`: one repository."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import QuerySet

from apps.accounts.principal import Principal
from apps.events.models import Key
from apps.repos.access import open_repo
from apps.repos.models import Repo

PATH = re.compile(r"((?:teams|users)/[A-Za-z0-9._-]{1,64})/([A-Za-z0-9._-]{1,100})")


def readable_repo(principal: Principal, text: str) -> Repo:
    """The repository by its present or former path; 404, 403, `ValueError` for another form."""
    match = PATH.fullmatch(text.lower())
    if match is None:
        raise ValueError(text)
    return open_repo(principal, match[1], match[2], former=True).repo


class RepoEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        return Key("repo_id", readable_repo(principal, text).pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        return Repo.objects.filter(pk__in=ids).paths()

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        return Repo.objects.visible_to(principal).values("pk")
