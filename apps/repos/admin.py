"""The admin of repositories, protected branches and forks. See docs/admin.md."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.admin import (
    NONE,
    ActionForm,
    Choices,
    Flag,
    RowAction,
    StaffAdmin,
    badge,
    bulleted,
    moment,
    row_link,
)
from apps.core.search import begins
from apps.repos import actions
from apps.repos.access import access_to
from apps.repos.models import Approver, Fork, ForkStatus, Protection, Repo, Visibility
from apps.repos.protection_rules import SETTINGS, summaries, with_form_fields
from apps.teams.models import Team

OWNERS = ("owner_team", "owner_user")
SHOWN = 100
"""Most protections shown on the page of a repository."""


def under(text: str) -> Q:
    """Repositories by `teams/acme`, by `users/ada/api`, or by the beginning of a slug."""
    space, _, rest = text.lower().partition("/")
    owner, _, slug = rest.partition("/")
    if space == "teams" and owner:
        owned = Q(owner_team__in=Team.objects.filter(slug=owner).values("pk"))
    elif space == "users" and owner:
        owned = Q(owner_user__in=User.objects.filter(username_key=owner).values("pk"))
    else:
        return begins("slug", text.lower())
    return owned & begins("slug", slug) if slug else owned


def archive(principal: Principal, row: Repo, *, is_archived: bool) -> None:
    actions.update_repo(access=access_to(principal, row), is_archived=is_archived)


def delete(principal: Principal, row: Repo, confirm: str) -> None:
    actions.delete_repo(access=access_to(principal, row), confirm=confirm)


class ChangeRepo(ActionForm):
    default_branch = forms.CharField(
        max_length=255, help_text="The branch that a clone checks out. It has to exist."
    )


class VisibilityFilter(Choices):
    title = parameter_name = "visibility"
    words = tuple(Visibility)


class RepoState(Flag):
    title = parameter_name = "state"
    column = "is_archived"
    words = ("archived", "open")


@admin.register(Repo)
class RepoAdmin(StaffAdmin):
    """Staff archives repositories and changes default branches; the owners change all else."""

    group, position = "Teams and repositories", 2
    list_display = ("path", "name", "visibility", "state", "pushed", "created_at")
    list_filter = (VisibilityFilter, RepoState)
    list_select_related = OWNERS
    search_help_text = "The beginning of a slug, or a path: teams/acme, users/ada/api."
    form = ChangeRepo
    changes = ("default_branch",)
    layout = (
        (None, {"fields": ("path", "name", "description", "visibility", "default_branch")}),
        ("State", {"fields": ("state", "is_empty", "pushed", "origin", "fork_count")}),
        ("Protected branches", {"fields": ("protected",)}),
        ("Record", {"fields": ("uuid", "created_at", "updated_at")}),
    )
    row_actions = (
        RowAction(
            "archive",
            "Archive",
            partial(archive, is_archived=True),
            "Everybody who can read it still can, but nobody can change it or push to it.",
            "{} is archived.",
            lambda row: row.deletion_id is None and not row.is_archived,
        ),
        RowAction(
            "unarchive",
            "Open again",
            partial(archive, is_archived=False),
            "It can be changed and pushed to again.",
            "{} is open again.",
            lambda row: row.deletion_id is None and row.is_archived,
        ),
        RowAction(
            "remove",
            "Delete",
            delete,
            "Gone for everybody at once. It can be restored for 14 days, in the list of deletions.",
            "{} is deleted.",
            lambda row: row.deletion_id is None,
            ends=True,
            typed=lambda row: row.full_name,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        upstreams = (f"upstream__{owner}" for owner in OWNERS)
        return super().get_queryset(request).select_related(*OWNERS, *upstreams)

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        return rows.filter(under(text))

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        access = access_to(principal, row)
        access.require_change(Level.ADMIN)
        actions.update_repo(access=access, **values)

    @admin.display(description="state")
    def state(self, row: Repo) -> str:
        if row.deletion_id is not None:
            return badge("deleted", False)
        return badge("archived", False) if row.is_archived else badge("open", True)

    @admin.display(description="last push")
    def pushed(self, row: Repo) -> str:
        return moment(row.pushed_at)

    @admin.display(description="forked from")
    def origin(self, row: Repo) -> str:
        return row_link(row.upstream)

    @admin.display(description="protected")
    def protected(self, row: Repo) -> str:
        rows = list(row.protections.order_by("created_at", "id")[: SHOWN + 1])
        lines = [
            format_html("{} {}", row_link(rule, rule.branch), ", ".join(summaries(rule)))
            for rule in rows[:SHOWN]
        ]
        return bulleted(lines, more="and others" if len(rows) > SHOWN else "")


@with_form_fields
class ChangeProtection(ActionForm):
    """A form with the settings of all protection rules."""


@admin.register(Protection)
class ProtectionAdmin(StaffAdmin):
    """Staff changes the settings of rules. Patterns and approvers are changed over the API."""

    group, position = "Teams and repositories", 3
    list_display = ("branch", "where", *SETTINGS, "named", "created_by", "created_at")
    list_select_related = ("repo__owner_team", "repo__owner_user", "created_by")
    search_help_text = "The beginning of the repository slug, or its path: teams/acme/api."
    form = ChangeProtection
    changes = tuple(SETTINGS)
    layout = (
        (None, {"fields": ("where", "branch", *SETTINGS, "approvers_named")}),
        ("Record", {"fields": ("uuid", "created_by", "created_at", "updated_at")}),
    )

    row_actions = (
        RowAction(
            "remove",
            "End it",
            lambda principal, row: actions.delete_protection(
                access=access_to(principal, row.repo), protection=row
            ),
            "Everybody with write access can push to these branches again.",
            "The {} has ended.",
            ends=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = Protection.objects.select_related(*self.list_select_related)
        # Runs only for the rows of a page; a join would first count those of the whole table.
        own = Approver.objects.filter(protection=OuterRef("pk")).order_by().values("protection")
        counted = Subquery(own.annotate(number=Count("pk")).values("number"))
        return rows.annotate(approver_count=counted)

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        return rows.filter(repo__in=Repo.objects.filter(under(text)).values("pk"))

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        access = access_to(principal, row.repo)
        actions.update_protection(access=access, protection=row, **values)

    @admin.display(description="repository")
    def where(self, row: Protection) -> str:
        return row_link(row.repo)

    @admin.display(description="approvers")
    def named(self, row: Any) -> str:
        return str(row.approver_count or "anybody with write")

    @admin.display(description="approvers")
    def approvers_named(self, row: Protection) -> str:
        rows = row.approvers.select_related("user").order_by("created_at", "id")[:SHOWN]
        return bulleted([row_link(approver.user) for approver in rows]) if rows else self.named(row)


class ForkState(Choices):
    title = parameter_name = "status"
    words = tuple(ForkStatus)


@admin.register(Fork)
class ForkAdmin(StaffAdmin):
    """Forks and their status, read-only: the worker makes them."""

    group, position = "Teams and repositories", 4
    list_display = ("origin", "copy", "state", "created_by", "created_at", "completed_at")
    list_filter = (ForkState,)
    search_help_text = "The beginning of the upstream slug, or its path: teams/acme/api."
    layout = (
        (None, {"fields": ("origin", "space", "copy", "state", "error")}),
        ("Record", {"fields": ("uuid", "created_by", "created_at", "started_at", "completed_at")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Fork.objects.with_paths()

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        return rows.filter(upstream__in=Repo.objects.filter(under(text)).values("pk"))

    @admin.display(description="upstream")
    def origin(self, row: Fork) -> str:
        return row.upstream.path

    @admin.display(description="into the space of")
    def space(self, row: Fork) -> str:
        return row_link(row.owner)

    @admin.display(description="copy")
    def copy(self, row: Fork) -> str:
        return row_link(row.repo) if row.repo else NONE

    @admin.display(description="status")
    def state(self, row: Fork) -> str:
        return badge(row.status, {"completed": True, "failed": False}.get(row.status))
