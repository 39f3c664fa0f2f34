"""`/site-settings`, read by everybody signed in and changed by staff; `/rate-limits`, for staff."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404

from apps.core.access import Level
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.site import actions
from apps.site.models import RateLimit, SiteSettings
from apps.site.serializers import (
    CreateRateLimit,
    RateLimitRecord,
    SiteSettingsRecord,
    UpdateRateLimit,
    UpdateSiteSettings,
    rate_limit_record,
    site_settings_record,
)


class SiteSettingsViewSet(ApiViewSet):
    """/site-settings"""

    family = "site-settings"
    free_for_staff = True

    @operation(Level.NONE, gives=SiteSettingsRecord)
    def list(self) -> dict[str, Any]:
        """Read the settings of the site."""
        return site_settings_record(SiteSettings.load())

    @operation(Level.STAFF, takes=UpdateSiteSettings, gives=SiteSettingsRecord)
    def change(self) -> dict[str, Any]:
        """Change the settings of the site. What is left out stays as it is."""
        return site_settings_record(actions.update_site_settings(actor=self.caller, **self.input))


class RateLimitViewSet(ApiViewSet):
    """/rate-limits"""

    family = "rate-limits"
    free_for_staff = True
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    rate_limit: RateLimit

    def enter(self) -> None:
        if "uuid" in self.kwargs:
            rows = RateLimit.objects.select_related("updated_by")
            self.rate_limit = get_object_or_404(rows, uuid=self.kwargs["uuid"])

    @operation(Level.STAFF, gives=RateLimitRecord, paged=True)
    def list(self) -> dict[str, Any]:
        """List the rate limits, by scope."""
        rows = RateLimit.objects.select_related("updated_by").order_by("scope")
        return self.page(rows, rate_limit_record)

    @operation(Level.STAFF, takes=CreateRateLimit, gives=RateLimitRecord, status=201)
    def create(self) -> dict[str, Any]:
        """Create a rate limit. There is one for each scope."""
        return rate_limit_record(actions.create_rate_limit(actor=self.caller, **self.input))

    @operation(Level.STAFF, gives=RateLimitRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a rate limit."""
        return rate_limit_record(self.rate_limit)

    @operation(Level.STAFF, takes=UpdateRateLimit, gives=RateLimitRecord)
    def update(self) -> dict[str, Any]:
        """Change a rate limit. What is left out stays as it is."""
        actions.update_rate_limit(actor=self.caller, rate_limit=self.rate_limit, **self.input)
        return rate_limit_record(self.rate_limit)

    @operation(Level.STAFF, status=204)
    def destroy(self) -> None:
        """Lift a rate limit."""
        actions.delete_rate_limit(actor=self.caller, rate_limit=self.rate_limit)
