"""`/`: what this is, for who does not know it; for who is signed in, the way on."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.views import base_url
from apps.repos.models import Repo
from apps.site.models import SiteSettings
from apps.web.answers import Visit, show
from apps.web.door import page

SHOWN = 10
"""Repositories on the page, the newest first."""


@page(Level.PUBLIC)
def home(request: Visit) -> HttpResponse:
    """Repositories have no pages yet: their clone addresses are shown."""
    repos = Repo.objects.visible_to(request.user).select_related("owner_team", "owner_user")
    site = SiteSettings.load()
    newest = repos.order_by("-id")[:SHOWN]
    return show(request, "home", repos=newest, base=base_url(request), site=site)
