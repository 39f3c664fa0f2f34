"""The rate limits of a new installation: tests that empty tables delete them."""

from importlib import import_module

from django.apps import apps

from apps.site.models import RateLimit


def first_rate_limits():
    """The limits of the migration, and no others."""
    RateLimit.objects.all().delete()
    import_module("apps.site.migrations.0004_first_rate_limits").make_rows(apps, None)
