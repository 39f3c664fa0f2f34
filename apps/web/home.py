"""`/`: what this is, for strangers; where to go on, for whoever is signed in."""

from __future__ import annotations

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.views import base_url
from apps.repos.models import Repo
from apps.site.models import SiteSettings
from apps.web.decorators import page
from apps.web.responses import PageRequest, render_page

SHOWN = 10
"""Repositories on the page, the newest first."""


@page(Level.PUBLIC)
def home(request: PageRequest) -> HttpResponse:
    """The newest repositories, with the addresses to clone them."""
    repos = Repo.objects.visible_to(request.principal).select_related("owner_team", "owner_user")
    site = SiteSettings.load()
    newest = repos.order_by("-id")[:SHOWN]
    return render_page(request, "home", repos=newest, base=base_url(request), site=site)
