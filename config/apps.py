"""Makes `config` an app, for its management commands and checks."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401 - importing registers them


class StaffSiteApp(AdminConfig):
    """Django's admin with our site."""

    default_site = "apps.core.admin.StaffSite"
