"""Admin pages of threads and replies, for moderation. See docs/admin.md."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.admin import Choices, RowAction, StaffAdmin, badge, link_to, row_link
from apps.core.slugs import USERNAME_MAX
from apps.repos.access import access_to
from apps.repos.models import Repo
from apps.repos.scopes import PATH
from apps.threads import actions
from apps.threads.models import Reply, Thread, ThreadKind, ThreadStatus

REPO = ("repo__owner_team", "repo__owner_user")
NUMBER_MAX = 10**12


def repos_at(path: str) -> QuerySet[Any]:
    """The id of the repository at a path such as `teams/acme/api`, as a queryset."""
    match = PATH.fullmatch(path.lower())
    if match is None:
        return Repo.objects.none()
    return Repo.objects.under(match[1]).filter(slug=match[2]).values("pk")


def split(text: str) -> tuple[str, int | None]:
    """The path and the number of `teams/acme/api#7`; None without a valid number."""
    path, _, number = text.partition("#")
    is_valid = number.isascii() and number.isdigit() and int(number[:13]) < NUMBER_MAX
    return path.strip(), int(number) if is_valid else None


def written_by(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """The rows that the person with exactly this username created."""
    people = User.objects.filter(username_key=text.lower()[: USERNAME_MAX + 1])
    return rows.filter(created_by__in=people.values("pk"))


def delete_thread(*, principal: Principal, row: Thread) -> None:
    actions.delete_thread(access=access_to(principal, row.repo), thread=row)


def moderate(*, principal: Principal, row: Reply) -> None:
    actions.moderate_reply(access=access_to(principal, row.thread.repo), reply=row)


class StatusFilter(Choices):
    title = parameter_name = "status"
    words = tuple(ThreadStatus)


@admin.register(Thread)
class ThreadAdmin(StaffAdmin):
    """Staff can read and delete threads. The thread of a pull cannot be deleted."""

    group, position = "Conversations", 1
    list_display = ("subject", "where", "kind", "status", "created_by", "reply_count", "created_at")
    list_display_links = ("subject",)
    list_filter = (StatusFilter,)
    list_select_related = (*REPO, "created_by")
    search_help_text = (
        "A repository, teams/acme/api, a thread there, teams/acme/api#7, or a username."
    )
    layout = (
        (None, {"fields": ("title", "where", "body", "kind", "status", "priority")}),
        ("Conversation", {"fields": ("answers", "participant_count", "last_activity_at")}),
        ("Record", {"fields": ("uuid", "created_by", "created_at", "updated_at", "closed_at")}),
    )
    row_actions = (
        RowAction(
            "remove",
            "Delete",
            delete_thread,
            "The thread and its replies are deleted for everybody, for good.",
            "{} is deleted.",
            lambda row: row.kind != ThreadKind.PULL,
            ends=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return Thread.objects.existing().select_related(*self.list_select_related)

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        if "/" not in text:
            return written_by(rows, text)
        path, number = split(text)
        rows = rows.filter(repo__in=repos_at(path))
        return rows if number is None else rows.filter(number=number)

    @admin.display(description="thread")
    def subject(self, row: Thread) -> str:
        return str(row)

    @admin.display(description="repository")
    def where(self, row: Thread) -> str:
        return row_link(row.repo)

    @admin.display(description="replies")
    def answers(self, row: Thread) -> str:
        return link_to(Reply, f"{row.reply_count}", q=f"{row.repo.path}#{row.number}")


@admin.register(Reply)
class ReplyAdmin(StaffAdmin):
    """Staff can read and blank replies. A blanked reply stays in the tree above its replies."""

    group, position = "Conversations", 2
    list_display = ("words", "subject", "where", "created_by", "state", "created_at")
    list_select_related = ("thread__repo__owner_team", "thread__repo__owner_user", "created_by")
    search_help_text = "A thread, such as teams/acme/api#7, or a username."
    layout = (
        (None, {"fields": ("body", "links", "kind", "state", "subject", "where")}),
        ("Record", {"fields": ("uuid", "version", "created_by", "created_at", "edited_at")}),
    )
    row_actions = (
        RowAction(
            "blank",
            "Blank",
            moderate,
            "Only staff can read its text and links, among its versions. "
            "Replies to it stay, below a placeholder. The event names you.",
            "{} is blanked.",
            lambda row: not row.is_deleted,
            ends=True,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = Reply.objects.filter(thread__deleted_at=None)
        return rows.select_related(*self.list_select_related)

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        if "/" not in text:
            return written_by(rows, text)
        path, number = split(text)
        threads = Thread.objects.filter(repo__in=repos_at(path), number=number or 0)
        return rows.filter(thread__in=threads.values("pk"))

    @admin.display(description="reply")
    def words(self, row: Reply) -> str:
        line = " ".join(row.body.split())
        return f"{row}: {line[:79]}{'…' if len(line) > 79 else ''}" if line else str(row)

    @admin.display(description="thread")
    def subject(self, row: Reply) -> str:
        return row_link(row.thread)

    @admin.display(description="repository")
    def where(self, row: Reply) -> str:
        return row_link(row.thread.repo)

    @admin.display(description="status")
    def state(self, row: Reply) -> str:
        return badge("deleted", False) if row.is_deleted else badge(row.status)
