"""Makes `config` an app, so that Django finds its management commands and checks."""

from django.apps import AppConfig


class ConfigApp(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401 - importing registers them
