"""`/site-settings`, read by everybody signed in and changed by staff; `/rate-limits`, for staff."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from apps.core.access import Level
from apps.core.lookup import get_or_missing
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

    schema_tags = ["site-settings"]
    unlimited_for_staff = True

    @operation(Level.NONE, response=SiteSettingsRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read the settings of the site."""
        return site_settings_record(SiteSettings.load())

    @operation(Level.STAFF, request=UpdateSiteSettings, response=SiteSettingsRecord)
    def update(self) -> dict[str, Any]:
        """Change the settings of the site."""
        return site_settings_record(
            actions.update_site_settings(principal=self.principal, **self.validated_data)
        )


class RateLimitViewSet(ApiViewSet):
    """/rate-limits"""

    schema_tags = ["rate-limits"]
    unlimited_for_staff = True
    queryset = RateLimit.objects.select_related("updated_by").order_by("scope")
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    rate_limit: RateLimit

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            self.rate_limit = get_or_missing(self.queryset, "rate limit", uuid=self.kwargs["uuid"])

    @operation(Level.STAFF, response=RateLimitRecord)
    def list(self) -> Response:
        """List the rate limits, by scope."""
        return self.page_of(self.get_queryset(), rate_limit_record)

    @operation(
        Level.STAFF,
        request=CreateRateLimit,
        response=RateLimitRecord,
        status=201,
        errors=("rate_limit_exists", "user_not_found"),
    )
    def create(self) -> dict[str, Any]:
        """Create a rate limit. There is one for each scope."""
        return rate_limit_record(
            actions.create_rate_limit(principal=self.principal, **self.validated_data)
        )

    @operation(Level.STAFF, response=RateLimitRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a rate limit."""
        return rate_limit_record(self.rate_limit)

    @operation(
        Level.STAFF,
        request=UpdateRateLimit,
        response=RateLimitRecord,
        errors=("rate_limit_exists", "user_not_found"),
    )
    def update(self) -> dict[str, Any]:
        """Change a rate limit."""
        actions.update_rate_limit(
            principal=self.principal, rate_limit=self.rate_limit, **self.validated_data
        )
        return rate_limit_record(self.rate_limit)

    @operation(Level.STAFF, status=204)
    def destroy(self) -> None:
        """Lift a rate limit."""
        actions.delete_rate_limit(principal=self.principal, rate_limit=self.rate_limit)
