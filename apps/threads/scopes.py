"""The event scope `thread:teams/<t>/<r>/<n>` and `thread:users/<u>/<r>/<n>`: one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet

from apps.core.parsers import number
from apps.events.models import Key
from apps.repos.models import Repo
from apps.repos.scopes import readable_repo
from apps.threads.doors import find_thread
from apps.threads.models import Thread

if TYPE_CHECKING:
    from apps.accounts.models import User


class ThreadScope:
    def key(self, user: User, text: str) -> Key:
        path, _, digits = text.rpartition("/")
        wanted = number(digits)
        repo = readable_repo(user, path)
        return Key("thread_id", find_thread(repo, wanted).pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        found = Thread.objects.filter(pk__in=ids)
        threads = found.select_related("repo__owner_team", "repo__owner_user")
        return {thread.pk: f"{thread.repo.path}/{thread.number}" for thread in threads}

    def readable(self, user: User) -> QuerySet[Any, Any]:
        repos = Repo.objects.visible_to(user).values("pk")
        return Thread.objects.existing().filter(repo__in=repos).values("pk")
