"""All URLs of the admin, by the registered models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import Model
from django.urls import reverse

from apps.accounts.models import ApiToken, User
from apps.events.models import Event
from apps.repos.models import Protection
from apps.threads.models import Reply, Thread

DISTINGUISHED_BY: dict[type[Model], Callable[[Any], object]] = {
    Event: attrgetter("kind"),
    ApiToken: attrgetter("is_usable"),
    User: lambda user: (user.is_active, user.is_staff, user.has_usable_password()),
    Protection: attrgetter("repo.owner_team_id"),
    Thread: attrgetter("kind", "repo.owner_team_id"),
    Reply: attrgetter("thread.repo.owner_team_id"),
}
"""For models with many rows: the values by which pages of two rows differ."""


def registered() -> list[type[Model]]:
    """The models of the admin."""
    return [model for model in apps.get_models() if admin.site.is_registered(model)]


def admin_url(model: type[Model], page: str = "changelist", *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def row_url(row: Model, action: str = "") -> str:
    """The page of a row, or the confirmation page of this action."""
    if action:
        return admin_url(type(row), "row_action", row.pk, action)
    return admin_url(type(row), "change", row.pk)


def all_urls() -> Iterator[str]:
    """The index, and for each model the list, the page for a new row, the page of a row and the
    confirmation pages of its actions. One row stands for all with the same pages.
    """
    yield reverse("admin:index")
    yield reverse("overview")
    for model in registered():
        pages = admin.site.get_model_admin(model)
        yield admin_url(model)
        if getattr(pages, "add_form", None):
            yield admin_url(model, "add")
        key = DISTINGUISHED_BY.get(model, attrgetter("pk"))
        for row in {key(row): row for row in model._default_manager.all()}.values():
            yield row_url(row)
            yield from (row_url(row, one.name) for one in getattr(pages, "row_actions", ()))
