"""The page `/settings/export`, where a person downloads their data."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from apps.core.access import Level
from apps.core.views import site_url
from apps.web.decorators import FORM, page
from apps.web.forms import PageForm
from apps.web.responses import PageRequest
from config.moving.views import person_response


@page(Level.NONE, methods=FORM, throttle="users", is_compressed=False)
def export_account(request: PageRequest) -> HttpResponseBase:
    """A GET explains the file. The POST answers it: no link of another site can start this work."""
    form = PageForm(request)
    if form.is_valid():
        with form.refusals():
            response = person_response(request, request.principal, site_url())
            name = f"{request.user.username}.jsonl"
            response["Content-Disposition"] = content_disposition_header(True, name)
            response["Cache-Control"] = "no-store"
            return response
    return form.render_page(request, "export_account")
