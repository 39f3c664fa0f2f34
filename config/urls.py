"""Addresses outside the API, and where the API hangs."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from apps.core.slugs import register_converters

register_converters()

from config.api import router  # noqa: E402 - its routes need the converters
from config.views import healthz  # noqa: E402

urlpatterns = [
    path("api/v1/", include(router.urls)),
    path("admin/", admin.site.urls),
    path("healthz", healthz),
]
