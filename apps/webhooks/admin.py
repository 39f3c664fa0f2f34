"""Webhooks, for staff to read; their pages change them. See docs/admin.md."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html

from apps.core.admin import NONE, Flag, StaffAdmin, badge, moment, row_link
from apps.core.search import uuid_begins
from apps.webhooks.models import State, Webhook
from apps.webhooks.rules import reason_text


class Activity(Flag):
    title, parameter_name, column = "state", "state", "is_active"
    words = ("on", "off")


@admin.register(Webhook)
class WebhookAdmin(StaffAdmin):
    """All webhooks, without their secrets."""

    group, position = "Site", 3
    intro = "Webhooks of repositories, teams and the site. Each has a page where it is changed."
    list_display = ("url", "owner", "condition", "last_success", "created_by", "created_at")
    list_select_related = ("repo__owner_team", "repo__owner_user", "team", "created_by")
    list_filter = (Activity,)
    search_help_text = "The beginning of a UUID, of at least eight digits."
    layout = (
        (None, {"fields": ("url", "description", "owner", "sent_kinds", "its_page")}),
        (
            "State",
            {
                "fields": (
                    "condition",
                    "reason",
                    "consecutive_failures",
                    "next_attempt_at",
                    "last_success",
                    "cursor_event_id",
                )
            },
        ),
        ("Record", {"fields": ("uuid", "created_at", "updated_at", "created_by")}),
    )

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        return rows.filter(uuid_begins(text, least=8))

    @admin.display(description="owner")
    def owner(self, row: Webhook) -> str:
        owner = row.repo or row.team
        return row_link(owner) if owner else "the site"

    @admin.display(description="state")
    def condition(self, row: Webhook) -> str:
        good = {State.ACTIVE: True, State.BACKING_OFF: None, State.DISABLED: False}[row.state]
        return badge(row.state.replace("_", " "), good)

    def reason(self, row: Webhook) -> str:
        return reason_text(row) or NONE

    def last_success(self, row: Webhook) -> str:
        return moment(row.last_success_at)

    @admin.display(description="kinds")
    def sent_kinds(self, row: Webhook) -> str:
        return ", ".join(row.kinds) or "all"

    @admin.display(description="page")
    def its_page(self, row: Webhook) -> str:
        address = reverse("find-webhook", args=[row.uuid])
        return format_html('<a href="{}">{}</a>', address, address)
