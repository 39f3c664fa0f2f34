"""The settings of the site and its rate limits, for staff. See docs/admin.md."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from apps.core.access import Principal
from apps.core.admin import NONE, ActionForm, RowAction, StaffAdmin, badge, row_link
from apps.core.serializers import RequestSerializer
from apps.site import actions, limits
from apps.site.counters import Usage
from apps.site.models import RateLimit, SiteSettings
from apps.site.rules import RATE_SCOPE_MAX, known_rate_scopes
from apps.site.serializers import CreateRateLimit, UpdateRateLimit, UpdateSiteSettings


class ChangeSettings(ActionForm):
    request_serializer = UpdateSiteSettings

    class Meta:
        help_texts = {
            "signup_invite_max_per_24h": "For each person, also staff. 0: nobody may invite.",
            "signup_invite_min_account_age": 'Minimum age of accounts that invite: "3 d".',
            "signup_invite_creators": "Who may invite. Users: everybody has a page for it.",
            "rate_limits_enabled": "Off: no rate limit is in force.",
            "signups_enabled": "Off: nobody can sign up, even with an invite.",
        }


@admin.register(SiteSettings)
class SiteSettingsAdmin(StaffAdmin):
    """The settings are one row, and their list is its page."""

    group, position = "Site", 1
    form = ChangeSettings
    changes = (
        "signups_enabled",
        "signups_require_invite",
        "signup_invite_creators",
        "signup_invite_max_per_24h",
        "signup_invite_min_account_age",
        "rate_limits_enabled",
    )
    layout = (
        ("Signing up", {"fields": changes[:2]}),
        ("Invites", {"fields": changes[2:5]}),
        ("Rate limits", {"fields": changes[5:]}),
        ("Record", {"fields": ("updated_at", "changed_by")}),
    )

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        row = SiteSettings.load()
        return HttpResponseRedirect(self.address("change", row.pk))

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        actions.update_site_settings(principal=principal, **values)

    def changed_by(self, row: SiteSettings) -> str:
        return row_link(row.updated_by)


class NewRateLimit(ActionForm):
    request_serializer: type[RequestSerializer] | None = CreateRateLimit

    scope = forms.CharField(max_length=RATE_SCOPE_MAX)
    max_requests = forms.IntegerField(label="Requests")
    window_seconds = forms.IntegerField(label="Window in seconds", initial=60)
    is_enabled = forms.BooleanField(label="In force", initial=True, required=False)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        words = ", ".join([*known_rate_scopes(), "user:<username>"])
        self.fields["scope"].help_text = f"One of: {words}".replace("<", "&lt;")


class ChangeRateLimit(NewRateLimit):
    request_serializer = UpdateRateLimit


@admin.register(RateLimit)
class RateLimitAdmin(StaffAdmin):
    """The limits of rate scopes, and their current usage."""

    group, position = "Site", 2
    intro = (
        "Current usage: the number of people or addresses counted, and the one with most requests. "
        "Without Redis each process counts for itself, and this shows the one that answered."
    )
    ordering = ("scope",)
    list_display = ("scope", "limit", "state", "counted_now", "busiest", "updated_at", "changed_by")
    list_select_related = ("updated_by",)
    form = ChangeRateLimit
    add_form = NewRateLimit
    changes = ("scope", "max_requests", "window_seconds", "is_enabled")
    layout = (
        (None, {"fields": changes}),
        ("Now", {"fields": ("counted_now", "busiest")}),
        ("Record", {"fields": ("uuid", "created_at", "updated_at", "changed_by")}),
    )
    row_actions = (
        RowAction(
            "remove",
            "Lift",
            lambda principal, row: actions.delete_rate_limit(principal=principal, rate_limit=row),
            "The limit is deleted, and requests of this scope are unlimited from now on.",
            "The limit of {} is lifted.",
            ends=True,
        ),
    )

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        change_list = super().get_changelist_instance(request)
        change_list.result_list = with_usage(list(change_list.result_list))
        return change_list

    def get_object(self, *args: Any, **options: Any) -> Any:
        row = super().get_object(*args, **options)
        return row and with_usage([row])[0]

    def add(self, principal: Principal, **values: Any) -> RateLimit:
        return actions.create_rate_limit(principal=principal, **values)

    def change(self, principal: Principal, row: Any, **values: Any) -> None:
        actions.update_rate_limit(principal=principal, rate_limit=row, **values)

    def limit(self, row: RateLimit) -> str:
        return f"{row.max_requests:,} in {row.window_seconds:,} s"

    def state(self, row: RateLimit) -> str:
        return badge("in force", True) if row.is_enabled else badge("off")

    def counted_now(self, row: RateLimit) -> int:
        return row.usage.callers

    @admin.display(description="used most by")
    def busiest(self, row: RateLimit) -> str:
        usage = row.usage
        if not usage.requests:
            return NONE
        caller = row_link(row.person) if row.person else usage.busiest
        return format_html("{}: {} of {}", caller, usage.requests, row.max_requests)

    def changed_by(self, row: RateLimit) -> str:
        return row_link(row.updated_by)


def with_usage(rows: list[RateLimit]) -> list[RateLimit]:
    """The rows with their `usage`, and the `person` with most requests if that is a person."""
    usages = limits.usage()
    ids = {usage.busiest for usage in usages.values() if usage.busiest.isdigit()}
    people = get_user_model().objects.in_bulk([int(pk) for pk in ids])
    for row in rows:
        row.usage = usage = usages.get(row.scope, Usage())
        row.person = people.get(int(usage.busiest)) if usage.busiest.isdigit() else None
    return rows
