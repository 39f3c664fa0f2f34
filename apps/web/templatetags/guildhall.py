"""Template filters and tags: times, names with hidden characters, counts, permissions."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from apps.accounts.models import Theme, User
from apps.accounts.principal import Principal, statement_for
from apps.accounts.rules import asks_password, may_invite
from apps.core.pagination import CountOf, counted
from apps.events.queries import list_pings
from apps.events.sentences import short_path
from apps.repos.models import Protection
from apps.repos.protection_rules import summaries
from apps.web import hidden_characters
from apps.web.responses import theme_of

register = template.Library()
register.filter("asks_password", asks_password)
register.filter("counted", counted)
register.filter("may_invite", may_invite)
register.filter("short_path", short_path)
register.filter("spelled", hidden_characters.spelled)


@register.simple_tag
def single_sign_on() -> str:
    """The name of the OpenID provider; empty on a site without one."""
    return settings.OIDC_NAME if settings.OIDC_ISSUER else ""


@register.simple_tag
def new_people_by_provider() -> str:
    """The name of the OpenID provider, if everybody whom it signs in gets an account."""
    return settings.OIDC_NAME if settings.OIDC_SIGNUPS_ALL else ""


@register.simple_tag
def local_passwords() -> bool:
    """Whether people may sign in with a password."""
    return settings.LOCAL_PASSWORDS


WEEK = dt.timedelta(days=7)
UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


@register.filter
def data_attributes(request: HttpRequest | None) -> SafeString:
    """Attributes of `<html>` for a theme and for shortcuts that are not the default."""
    attributes = []
    if request is not None and (theme := theme_of(request)) != Theme.SYSTEM:
        attributes.append(("theme", theme))
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated and not user.has_shortcuts:
        attributes.append(("shortcuts", "off"))
    return format_html_join("", ' data-{}="{}"', attributes)


@register.filter
def spoken(word: str) -> str:
    """A word of the API for people: `in_progress` becomes "in progress"."""
    return word.replace("_", " ")


@register.filter
def settings_summary(protection: Protection) -> str:
    """The settings of a protection: "2 approvals"."""
    return ", ".join(summaries(protection))


@register.filter
def marked(text: str) -> SafeString:
    return mark_safe(hidden_characters.escaped(text))  # noqa: S308 - escaped there


@register.filter
def bot(is_bot: bool | None) -> SafeString:
    """The label beside the name of a bot; empty for people."""
    return SafeString(' <span class="state none">bot</span>' if is_bot else "")


@register.filter
def isolated(text: str) -> SafeString:
    """The marked text in `<bdi>`, for names and titles: it isolates their text direction."""
    return format_html("<bdi>{}</bdi>", marked(text))


@register.simple_tag
def git_over_ssh() -> bool:
    """Whether this site serves git over SSH."""
    return settings.SSH_ADDRESS is not None


@register.simple_tag(takes_context=True)
def unread(context: Context) -> str:
    """The number of unread pings as text, empty for none. A page that has counted them already
    passes `unread` in its context.
    """
    principal: Principal = context["request"].principal
    if not principal.is_signed_in:
        return ""
    if "unread" in context:
        return counted(context["unread"]).removeprefix("0")
    (count,) = statement_for(principal, _unread).first(person=principal.user.pk)
    return counted(count).removeprefix("0")


def _unread(principal: Principal) -> QuerySet[Any, Any]:
    person = User.objects.filter(pk=principal.user.pk)
    return person.values_list(CountOf(list_pings(principal, unread=True)))


@register.filter
def at_most(number: int, most: int) -> int:
    return min(number, most)


@register.filter
def when(moment: dt.datetime) -> SafeString:
    """A `<time>`: "3 hours ago" or "in 3 hours" within seven days, else "12 Nov", or "12 Nov 2024"
    in another year. Its title has the full time.
    """
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        f"{moment:%-d %B %Y, %H:%M} UTC",
        words(moment, timezone.now()),
    )


@register.filter
def clock(moment: dt.datetime) -> SafeString:
    """The time of day, for lists by day. Scripts leave a `<time>` without a title unchanged."""
    return format_html(
        '<span title="{}"><time datetime="{}">{}</time></span>',
        f"{moment:%-d %B %Y, %H:%M} UTC",
        moment.isoformat(),
        f"{moment:%H:%M}",
    )


@register.filter
def with_code(text: str) -> SafeString:
    """A text with `<code>` for the parts between backticks."""
    plain, *others = text.split("`")
    marked = ((code, after) for code, after in zip(others[::2], [*others[1::2], ""], strict=False))
    return format_html("{}{}", plain, format_html_join("", "<code>{}</code>{}", marked))


@register.filter
def lasting(seconds: str | int) -> str:
    """A duration in words, such as "40 seconds" or "12 minutes", rounded up."""
    left = int(seconds)
    for unit, size in UNITS:
        if left >= 2 * size:
            return f"{-(-left // size)} {unit}s"
    return f"{left} second{'' if left == 1 else 's'}"


def words(moment: dt.datetime, now: dt.datetime) -> str:
    """The distance of a moment from now, or its day."""
    apart = abs(moment - now)
    if apart >= WEEK:
        return f"{moment:%-d %b}" if moment.year == now.year else f"{moment:%-d %b %Y}"
    for unit, seconds in UNITS:
        count = round(apart.total_seconds()) // seconds
        if count:
            many = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {many}" if moment > now else f"{many} ago"
    return "just now" if moment <= now else "in a moment"
