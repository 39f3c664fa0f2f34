"""The event scope `pull:teams/<t>/<r>/<n>` and `pull:users/<u>/<r>/<n>`: a pull and its thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404

from apps.core.parsers import number
from apps.events.models import Key
from apps.pulls.models import Pull
from apps.repos.models import Repo
from apps.repos.scopes import readable_repo

if TYPE_CHECKING:
    from apps.accounts.models import User


class PullScope:
    """The log knows a pull by its companion thread's id, so that one key finds both."""

    def key(self, user: User, text: str) -> Key:
        path, _, digits = text.rpartition("/")
        wanted = number(digits)
        repo = readable_repo(user, path)
        return Key("thread_id", get_object_or_404(repo.pulls, number=wanted).thread_id)

    def texts(self, ids: set[int]) -> dict[int, str]:
        found = Pull.objects.filter(thread__in=ids)
        pulls = found.select_related("repo__owner_team", "repo__owner_user")
        return {pull.thread_id: f"{pull.repo.path}/{pull.number}" for pull in pulls}

    def readable(self, user: User) -> QuerySet[Any, Any]:
        repos = Repo.objects.visible_to(user).values("pk")
        return Pull.objects.filter(repo__in=repos).values("thread")
