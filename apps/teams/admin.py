"""The admin of teams. See docs/admin.md."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.utils.html import format_html

from apps.accounts.principal import Principal
from apps.core.admin import ActionForm, Flag, RowAction, StaffAdmin, badge, bulleted, row_link
from apps.core.search import begins
from apps.teams import actions
from apps.teams.access import access_to_team
from apps.teams.models import Team
from apps.teams.serializers import UpdateTeam

MEMBERS_SHOWN = 200
"""Most members shown on the page of a team. The API lists all."""


class ChangeTeam(ActionForm):
    request_serializer = UpdateTeam

    class Meta:
        help_texts = {
            "slug": "The former slug leads here, and is reserved for this team for 90 days.",
            "second_factor_required": "Members without one are signed out, and have "
            "no access until they add one; neither have their tokens.",
            "is_active": "If off, members and staff may read, and nobody may change anything.",
        }


class TeamState(Flag):
    title = parameter_name = "state"
    column = "is_active"
    words = ("active", "inactive")


@admin.register(Team)
class TeamAdmin(StaffAdmin):
    """Staff changes names, slugs and activity. Teams change their members over the API."""

    group, position = "Teams and repositories", 1
    list_display = ("slug", "name", "state", "created_at")
    list_filter = (TeamState,)
    search_help_text = "The beginning of a slug."
    form = ChangeTeam
    changes = tuple(UpdateTeam().fields)
    layout = (
        (None, {"fields": changes}),
        ("Members", {"fields": ("members",)}),
        ("Record", {"fields": ("uuid", "created_at", "updated_at")}),
    )

    row_actions = (
        RowAction(
            "remove",
            "Delete",
            lambda principal, row, confirm: actions.delete_team(
                access=access_to_team(principal, row), confirm=confirm
            ),
            "Gone for everybody at once. It can be restored for 14 days, in the list of deletions.",
            "{} is deleted.",
            lambda row: row.deletion_id is None,
            ends=True,
            typed=lambda row: row.slug,
        ),
    )

    def search(self, rows: QuerySet[Any], text: str) -> QuerySet[Any]:
        return rows.filter(begins("slug", text.lower()))

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        actions.update_team(access=access_to_team(principal, row), **values)

    def state(self, row: Team) -> str:
        if row.deletion_id is not None:
            return badge("deleted", False)
        return badge("active", True) if row.is_active else badge("inactive", False)

    def members(self, row: Team) -> str:
        rows = row.members.select_related("user").order_by("created_at", "pk")
        members = list(rows[: MEMBERS_SHOWN + 1])
        lines = [
            format_html("{} {}", row_link(member.user), badge(member.role))
            for member in members[:MEMBERS_SHOWN]
        ]
        return bulleted(lines, more="and others" if len(members) > MEMBERS_SHOWN else "")
