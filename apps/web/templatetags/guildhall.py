"""What templates can say: times as people read them, and who is offered what."""

from __future__ import annotations

import datetime as dt

from django import template
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.accounts import rules
from apps.accounts.principal import Principal
from apps.core.pagination import MOST_COUNTED, count_text
from apps.events import sentences
from apps.events.queries import list_pings
from apps.web.look import look

register = template.Library()
WEEK = dt.timedelta(days=7)
UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


@register.filter
def may_invite(principal: Principal) -> bool:
    """Whether there is a page of invites for whoever looks at a page."""
    return rules.may_invite(principal)


@register.filter
def data_attributes(request: HttpRequest | None) -> SafeString:
    """How a page looks to who asks for it, as attributes of `<html>`."""
    found = look(request).items() if request is not None else ()
    return format_html_join("", ' data-{}="{}"', found)


@register.filter
def spoken(word: str) -> str:
    """A word of the API as people read it: `in_progress` as "in progress"."""
    return word.replace("_", " ")


@register.filter
def short_path(path: str) -> str:
    """`teams/acme/api` as people say it: `acme/api`."""
    return sentences.short_path(path)


@register.filter
def counted(number: int) -> str:
    """A number of rows, of which no more than `MOST_COUNTED` were counted."""
    return f"{MOST_COUNTED}+" if number > MOST_COUNTED else str(number)


@register.simple_tag
def unread(principal: Principal) -> str:
    """How many pings wait for whoever looks at a page; empty for none."""
    if not principal.is_signed_in:
        return ""
    return count_text(list_pings(principal, unread=True)).removeprefix("0")


@register.filter
def at_most(number: int, most: int) -> int:
    """The number, or the most that there may be."""
    return min(number, most)


@register.filter
def when(moment: dt.datetime) -> SafeString:
    """`<time>`: "3 hours ago" or "in 3 hours" up to seven days, then "12 Nov", with another year's.

    The full time stands in its title.
    """
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        f"{moment:%-d %B %Y, %H:%M} UTC",
        words(moment, timezone.now()),
    )


@register.filter
def lasting(seconds: str | int) -> str:
    """So many seconds as people say it: "40 seconds", "12 minutes", never less than it takes."""
    left = int(seconds)
    for unit, size in UNITS:
        if left >= 2 * size:
            return f"{-(-left // size)} {unit}s"
    return f"{left} second{'' if left == 1 else 's'}"


def words(moment: dt.datetime, now: dt.datetime) -> str:
    """How far the moment is from now, or its day."""
    apart = abs(moment - now)
    if apart >= WEEK:
        return f"{moment:%-d %b}" if moment.year == now.year else f"{moment:%-d %b %Y}"
    for unit, seconds in UNITS:
        count = round(apart.total_seconds()) // seconds
        if count:
            many = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {many}" if moment > now else f"{many} ago"
    return "just now" if moment <= now else "in a moment"
