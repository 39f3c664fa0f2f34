"""Jobs of accounts, for `settings.JOBS`: e-mails about pings, warnings of tokens that expire, and
expired sessions.

docs/pings.md says who gets mail, and how often.
"""

from __future__ import annotations

import datetime as dt
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from apps.accounts.actions import warn_of_expiry
from apps.accounts.models import ApiToken, BrowserSession, User
from apps.accounts.principal import Principal
from apps.accounts.proofs import unsubscribe_proof
from apps.core import mail
from apps.core.views import site_url
from apps.events.kinds import PING_WORDS, Kind, PingKind
from apps.events.models import Event, Ping, PingMail
from apps.events.serializers import event_records
from apps.jobs.leases import heartbeat
from apps.jobs.worker import OnDone

APART = dt.timedelta(minutes=10)
"""Least time between two mails to one person about one thread."""
RETRY, DOUBLINGS = dt.timedelta(minutes=1), 7
"""The wait after the first failure. It doubles with each further failure, so many times at most."""
DROPPED_AFTER = dt.timedelta(days=1)
MOST = 50
"""Most pings in one mail. If there are more, the mail says that."""


def delete_expired_sessions(_: OnDone = lambda _: None) -> bool:
    """Delete the rows of sessions that have expired; return False, as nothing is left to do.

    Also rows without a session: the previous version leaves them, and a page that was requested
    while its session ended.
    """
    import_module(settings.SESSION_ENGINE).SessionStore.clear_expired()
    session = Session.objects.filter(pk=OuterRef("session_id"))
    BrowserSession.objects.filter(~Exists(session)).delete()
    return False


def warn_of_expiring_tokens(on_done: OnDone = lambda _: None) -> bool:
    """Ping the owners of tokens that expire within a week, once for each token; return False, as
    nothing is left to do.
    """
    due = ApiToken.objects.to_warn().order_by("expires_at")
    warned = [pk for pk in list(due.values_list("pk", flat=True)) if warn_of_expiry(pk=pk)]
    if warned:
        on_done(f"{len(warned)} tokens expire soon")
    return False


def send_next_ping_mail(on_done: OnDone = lambda _: None) -> bool:
    """Send the mail that is due longest; return False if none is due.

    If a worker dies after sending, but before it has stored this, the mail is sent twice.
    """
    row = PingMail.next_due() if settings.SENDS_MAIL else None
    if row is None:
        return False
    token = row.take()
    if token is None:
        return True
    with heartbeat(row, token):
        pings = pings_to_tell(row)
        sent = bool(pings) and send_mail(row.user, pings)
    if pings and not sent:
        row.put_off(token, RETRY * 2 ** min(row.attempts - 1, DOUBLINGS))
    else:
        row.finish(token, APART if sent else dt.timedelta())
        on_done(f"{row}: {len(pings)} pings told")
    return True


def pings_to_tell(row: PingMail) -> list[Ping]:
    """The pings of the mail, newest first; empty if the person does not want mail any more.

    Pings that the person has read, may no longer read, or that are older than a day are left out.
    """
    user = row.user
    if not (user.is_active and user.wants_mail and user.email):
        return []
    untold = row.untold(timezone.now() - DROPPED_AFTER)
    return list(untold.visible_to(Principal(user)).order_by("-event")[: MOST + 1])


def send_mail(user: User, pings: list[Ping]) -> bool:
    """Send one mail about these pings of one thread; return whether it was sent."""
    events = Event.objects.filter(pk__in=[ping.event_id for ping in pings])
    records = {event["id"]: event for event in event_records(events.rows(), site_url())}
    lines = [ping_line(ping, records[ping.event_id]) for ping in pings]
    proof = urlencode({"token": unsubscribe_proof(user)})
    unsubscribe = f"{site_url()}{reverse('unsubscribe')}?{proof}"
    context = {"user": user, "pings": lines[:MOST], "more": len(lines) > MOST, "link": unsubscribe}
    headers = {
        "List-Unsubscribe": f"<{unsubscribe}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Auto-Submitted": "auto-generated",
    }
    text = render_to_string("web/mail/pings.txt", context)
    return mail.send(user.email, subject_of(records[pings[0].event_id]), text, headers)


def ping_line(ping: Ping, event: dict[str, Any]) -> dict[str, str]:
    """A ping in the mail: a sentence and a link."""
    name = event["actor_user_username"] or "Guildhall"
    actor = f"{name} (bot)" if event["actor_user_is_bot"] else name
    subjects: dict[str, str] = {
        PingKind.ADDED: f" {event['team_slug']}",
        PingKind.TOKEN_EXPIRING: f" ({event['data'].get('name')})",
    }
    return {
        "words": f"{actor} {PING_WORDS[ping.kind]}{subjects.get(ping.kind, '')}",
        "url": event["summary"]["web_url"] or site_url(),
    }


def subject_of(event: dict[str, Any]) -> str:
    """For a thread `[teams/acme/api] Slow pushes`; for a team `[teams/acme] You were added …`; for
    a token `Your API token ci expires soon`.
    """
    if event["kind"] == Kind.WEBHOOK_DISABLED:
        return "A webhook was disabled"
    if event["kind"] == Kind.TOKEN_EXPIRING:
        return f"Your API token {event['data']['name']} expires soon"
    title = event["summary"]["thread_title"]
    if title is None:
        return f"[teams/{event['team_slug']}] You were added to the team"
    return f"[{event['repo_path']}] {title}"
