"""Makes `config` an app, for its management commands and checks."""

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import AdminConfig


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks, error_reports  # noqa: F401 - importing registers the checks

        if settings.SENTRY_DSN:
            error_reports.start(settings.SENTRY_DSN)


class StaffSiteApp(AdminConfig):
    """Django's admin with our site."""

    default_site = "apps.core.admin.StaffSite"
