"""Makes `config` an app, so that Django finds its management commands and checks."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401 - importing registers them


class StaffSiteApp(AdminConfig):
    """Django's admin, with the site that staff works in."""

    default_site = "apps.core.admin.StaffSite"
