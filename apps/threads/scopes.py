"""The event scope `thread:teams/<t>/<r>/<n>` and `thread:users/<u>/<r>/<n>`: one thread."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.principal import Principal
from apps.core.query import number
from apps.events.models import Key
from apps.repos.models import Repo
from apps.repos.scopes import readable_repo
from apps.threads.models import Thread
from apps.threads.queries import get_thread


class ThreadEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        path, _, digits = text.rpartition("/")
        wanted = number(digits)
        repo = readable_repo(principal, path)
        return Key("thread_id", get_thread(repo, wanted).pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        found = Thread.objects.filter(pk__in=ids)
        threads = found.select_related("repo__owner_team", "repo__owner_user")
        return {thread.pk: f"{thread.repo.path}/{thread.number}" for thread in threads}

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        repos = Repo.objects.visible_to(principal).values("pk")
        return Thread.objects.existing().filter(repo__in=repos).values("pk")
