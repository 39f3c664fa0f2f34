"""The rate limits of a fresh install: a test that empties the tables takes them along."""

from importlib import import_module

from django.apps import apps

from apps.site.models import RateLimit


def first_rate_limits():
    """Those that the migration makes, and no others."""
    RateLimit.objects.all().delete()
    import_module("apps.site.migrations.0004_first_rate_limits").make_rows(apps, None)
