"""The addresses of the admin, all of them, from what is registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse

from apps.accounts.models import ApiToken, User
from apps.events.models import Event
from apps.repos.models import Protection
from apps.threads.models import Reply, Thread

LOOKS: dict[type[Model], Callable[[Any], object]] = {
    Event: attrgetter("kind"),
    ApiToken: attrgetter("is_usable"),
    User: lambda user: (user.is_active, user.is_staff, user.has_usable_password()),
    Protection: attrgetter("repo.owner_team_id"),
    Thread: attrgetter("kind", "repo.owner_team_id"),
    Reply: attrgetter("thread.repo.owner_team_id"),
}
"""What makes the page of one row another than that of the next, where there are many rows."""


def address(model: type[Model], page: str = "changelist", *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def at(row: Model, move: str = "") -> str:
    """The page of a row, or the question of one of its moves."""
    return (
        address(type(row), "move", row.pk, move) if move else address(type(row), "change", row.pk)
    )


def everything() -> Iterator[str]:
    """The index, and each list, page for a new row, page of a row and question of a move.

    Of rows whose pages look the same, one.
    """
    yield reverse("admin:index")
    for model, pages in admin.site._registry.items():
        yield address(model)
        if getattr(pages, "add_form", None):
            yield address(model, "add")
        look = LOOKS.get(model, attrgetter("pk"))
        for row in {look(row): row for row in model._default_manager.all()}.values():
            yield at(row)
            yield from (at(row, move.name) for move in getattr(pages, "moves", ()))
