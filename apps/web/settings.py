"""`/settings`: what one's own account is, and the ways to change it."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.web.answers import Visit, show
from apps.web.door import page


@page(Level.NONE)
def settings(request: Visit) -> HttpResponse:
    """The account as it is."""
    return show(request, "settings")
