"""What the API and the admin read of the site."""

from __future__ import annotations

from django.db.models import QuerySet

from apps.site.models import RateLimit


def list_rate_limits() -> QuerySet[RateLimit]:
    """The rate limits by rate scope, with who changed each."""
    return RateLimit.objects.select_related("updated_by").order_by("scope")
