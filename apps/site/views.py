"""`/site-settings`: read by everybody signed in, changed by staff."""

from __future__ import annotations

from typing import Any

from apps.core.access import Level
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.site import actions
from apps.site.models import SiteSettings
from apps.site.serializers import SiteSettingsRecord, UpdateSiteSettings, site_settings_record


class SiteSettingsViewSet(ApiViewSet):
    """/site-settings"""

    family = "site-settings"

    @operation(Level.NONE, gives=SiteSettingsRecord)
    def list(self) -> dict[str, Any]:
        """Read the settings of the site."""
        return site_settings_record(SiteSettings.load())

    @operation(Level.STAFF, takes=UpdateSiteSettings, gives=SiteSettingsRecord)
    def change(self) -> dict[str, Any]:
        """Change the settings of the site. What is left out stays as it is."""
        return site_settings_record(actions.update_site_settings(actor=self.caller, **self.input))
