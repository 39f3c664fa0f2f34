"""How long somebody stays signed in: as settings say, counted from the last day of use."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone

DAY = "day"
"""Where a session notes the day on which it was last prolonged."""


def prolong(request: HttpRequest) -> None:
    """Let the session end 14 days from today; one write a day, not one for each page."""
    today = timezone.now().date().toordinal()
    if request.session.get(DAY) != today:
        request.session[DAY] = today
