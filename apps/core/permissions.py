"""The permission that every operation asks for: the level that it declares."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission

from apps.core.access import Level


class HasLevel(BasePermission):
    """The caller holds the declared level on the resource of the path, or is staff.

    Refuses by itself with the code and the text of our errors, which DRF would replace.
    """

    def has_permission(self, request: Any, view: Any) -> bool:
        needed: Level = view.operation.level
        if needed is Level.STAFF:
            view.principal.check_staff()
        elif needed > Level.NONE:
            view.access.require(needed)
        return True
