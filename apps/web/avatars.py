"""`/avatars/<kind>/<uuid>.svg`: the face of a person or team as a picture, for other programs."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse

from apps.core.access import Level
from apps.web.decorators import page
from apps.web.responses import PageRequest
from apps.web.templatetags.pictures import picture

YEAR = 365 * 86400


@page(Level.PUBLIC)
def avatar(request: PageRequest, uid: UUID) -> HttpResponse:
    """It follows from the uuid alone, so it never changes, and tells nothing of whether there is
    somebody of that uuid.
    """
    response = HttpResponse(picture(uid), content_type="image/svg+xml")
    response["Cache-Control"] = f"private, max-age={YEAR}, immutable"
    return response
