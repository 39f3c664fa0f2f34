"""Makes `config` an app, so that Django finds its management commands."""

from django.apps import AppConfig


class ConfigApp(AppConfig):
    name = "config"
