"""The event scope `user:<username>`: events of which a person is the actor."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.core.access import Permission
from apps.core.lookup import get_or_missing
from apps.events.models import Key


class UserEventScope:
    def key(self, principal: Principal, text: str) -> Key:
        people = self.readable(principal).only("pk")
        user = get_or_missing(people, "user", username_key=text.lower())
        principal.check_permission(Permission.READ)
        return Key("actor_id", user.pk)

    def texts(self, ids: set[int]) -> dict[int, str]:
        return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))

    def readable(self, principal: Principal) -> QuerySet[Any, Any]:
        return User.objects.filter(NOT_GONE)
