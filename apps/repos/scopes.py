"""The event scope `repo:teams/<t>/<r>` and `repo:users/<u>/<r>`: one repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from apps.core.access import Level, check_level
from apps.events.models import Key
from apps.repos.doors import find_repo
from apps.repos.models import Repo

if TYPE_CHECKING:
    from apps.accounts.models import User

PATH = re.compile(r"(teams|users)/([A-Za-z0-9._-]{1,64})/([A-Za-z0-9._-]{1,100})")


def readable_repo(user: User, text: str) -> Repo:
    """The repository of `teams/<t>/<r>`; 404, 403; `ValueError` for another form."""
    found = PATH.fullmatch(text)
    if found is None:
        raise ValueError(text)
    owner = "team_slug" if found[1] == "teams" else "username"
    names = {owner: found[2].lower(), "repo_slug": found[3].lower()}
    repo, level = find_repo(names, user)
    repo.check_open(user, writing=False)
    check_level(repo, user, Level.READ, known=level)
    return repo


class RepoScope:
    def key(self, user: User, text: str) -> Key:
        return Key("repo_id", readable_repo(user, text).pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        return Repo.objects.filter(pk__in=ids).paths()

    def readable(self, user: User) -> QuerySet[Any, Any]:
        return Repo.objects.visible_to(user).values("pk")
