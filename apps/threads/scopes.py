"""The event scopes `thread:teams/<t>/<r>/<n>` and `pull:teams/<t>/<r>/<n>`, or `users/<u>`."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404

from apps.accounts.principal import Principal
from apps.core.errors import plain_error
from apps.core.query import number
from apps.events.models import Key
from apps.repos.models import Repo
from apps.repos.scopes import readable_repo
from apps.threads.models import Thread


class ThreadEventScope:
    """A thread, deleted or not: clients that were away learn of the deletion by its events."""

    def key(self, principal: Principal, text: str) -> Key:
        return Key("thread_id", self.find(principal, text).pk)

    def find(self, principal: Principal, text: str) -> Thread:
        path, _, digits = text.rpartition("/")
        thread_number = number(digits)
        return get_object_or_404(Thread, repo=readable_repo(principal, path), number=thread_number)

    def texts(self, ids: set[int]) -> dict[int, str]:
        threads = Thread.objects.filter(pk__in=ids)
        threads = threads.select_related("repo__owner_team", "repo__owner_user")
        return {thread.pk: f"{thread.repo.path}/{thread.number}" for thread in threads}

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        repos = Repo.objects.visible_to(principal).values("pk")
        return Thread.objects.filter(repo__in=repos).values("pk")


class PullEventScope(ThreadEventScope):
    """A pull, whose events carry the id of its companion thread; 404 for other threads."""

    def find(self, principal: Principal, text: str) -> Thread:
        thread = super().find(principal, text)
        if not thread.is_companion:
            raise plain_error(404)
        return thread
