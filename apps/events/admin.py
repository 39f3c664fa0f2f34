"""Admin pages of the event log, read-only. See docs/admin.md."""

from __future__ import annotations

import json
from typing import Any, cast

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.utils.html import format_html

from apps.core.admin import NONE, Choices, StaffAdmin
from apps.core.errors import ApiError
from apps.core.requests import SiteRequest, network
from apps.events.audit import AuditEntry
from apps.events.kinds import AUDITED, Kind, words_of
from apps.events.models import Event
from apps.events.scopes import Names, resolve

TARGET_NAMES = ("number", "username", "slug", "name")
PARENT_NUMBERS = ("thread_number", "pull_number")
"""The values of a target that lists show."""


class KindFilter(Choices):
    title = parameter_name = "kind"
    words = tuple(Kind)


class AuditKindFilter(Choices):
    title = parameter_name = "kind"
    words = AUDITED


class LogAdmin(StaffAdmin):
    """The columns of both logs."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        changelist.result_list = with_names(list(changelist.result_list))
        return changelist

    def get_object(self, *args: Any, **options: Any) -> Any:
        row = super().get_object(*args, **options)
        return row and with_names([row])[0]

    @admin.display(description="what")
    def what(self, row: Event | AuditEntry) -> str:
        return words_of(row.kind)

    @admin.display(description="about")
    def target_named(self, row: Event | AuditEntry) -> str:
        names = [f"{row.target[name]}" for name in TARGET_NAMES if name in row.target]
        parents = [f"of #{row.target[name]}" for name in PARENT_NUMBERS if name in row.target]
        return " ".join([row.target["kind"], *names, *parents])

    @admin.display(description="where")
    def where(self, row: Event | AuditEntry) -> str:
        return row.where

    @admin.display(description="data")
    def carried(self, row: Event | AuditEntry) -> str:
        return format_html("<pre>{}</pre>", json.dumps(row.data, indent=2, ensure_ascii=False))


@admin.register(Event)
class EventAdmin(LogAdmin):
    """Events, which nobody can change. They include the changes that staff make in the admin."""

    group, position = "Record", 1
    list_display = ("created_at", "actor", "what", "target_named", "where")
    list_display_links = ("created_at",)
    list_filter = (KindFilter,)
    list_select_related = ("actor",)
    search_help_text = (
        "A username, or a scope: site, team:acme, repo:teams/acme/api, thread:teams/acme/api/7."
    )
    layout = (
        (None, {"fields": ("created_at", "actor", "what", "kind", "target_named", "where")}),
        ("Record", {"fields": ("id", "title", "carried")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By username, or by an event scope of the API; both have an index."""
        text = search_term.strip()
        if not text:
            return queryset, False
        if text != "site" and ":" not in text:
            actors = get_user_model().objects.filter(username_key=text.lower()).values("pk")
            return queryset.filter(actor__in=actors), False
        try:
            (event_scope,) = resolve(cast("SiteRequest", request).principal, [text])
        except (ApiError, Http404):
            return queryset.none(), False
        return queryset.filter((event_scope.key.column, event_scope.key.value)), False


@admin.register(AuditEntry)
class AuditEntryAdmin(LogAdmin):
    """The audit log, which nobody can change."""

    group, position = "Record", 3
    list_display = ("created_at", "actor", "what", "target_named", "address", "where")
    list_display_links = ("created_at",)
    list_filter = (AuditKindFilter,)
    list_select_related = ("actor",)
    search_help_text = "A username, or an IP address."
    layout = (
        (None, {"fields": ("created_at", "actor", "what", "kind", "target_named", "where")}),
        ("Origin", {"fields": ("address", "program", "token_name", "token_uuid")}),
        ("Record", {"fields": ("id", "carried")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By the username of the actor, or by the address; both have an index."""
        text = search_term.strip()
        if not text:
            return queryset, False
        if address := network(text.removesuffix("/64")):
            return queryset.filter(address=address), False
        actors = get_user_model().objects.filter(username_key=text.lower()).values("pk")
        return queryset.filter(actor__in=actors), False


def with_names(rows: list[Any]) -> list[Any]:
    """Set `where`, the current name of the repository or team. Looks up all names at once."""
    names = Names(rows)
    for row in rows:
        team = names.teams.get(row.team_id)
        row.where = names.repos.get(row.repo_id) or (f"teams/{team}" if team else NONE)
    return rows
