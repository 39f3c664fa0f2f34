"""The mail about pings, for `settings.JOBS`. Who gets it, and how often: docs/pings.md."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.proofs import unsubscribe_proof
from apps.core import mail
from apps.core.views import site_url
from apps.events.kinds import PING_WORDS, PingKind
from apps.events.models import Event, Ping, PingMail
from apps.events.serializers import event_records
from apps.jobs.leases import heartbeat
from apps.jobs.worker import OnDone

APART = dt.timedelta(minutes=10)
"""Between two mails to one person about one thread."""
RETRY, DOUBLINGS = dt.timedelta(minutes=1), 7
"""The wait after the first failure, and how often it doubles with those that follow."""
DROPPED_AFTER = dt.timedelta(days=1)
MOST = 50
"""Pings that one mail tells; of more it says that there are more."""


def send_next_ping_mail(on_done: OnDone = lambda _: None) -> bool:
    """Send the mail that has waited longest; False when none is due.

    The lease is held while it is sent. A worker that dies before it has noted so leaves one mail
    that comes twice.
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
    """What the mail would tell, newest first; nothing to those who do not want it any more.

    Left out is what they have read since, may not read by now, or what is older than a day.
    """
    user = row.user
    if not (user.is_active and user.wants_mail and user.email):
        return []
    untold = row.untold(timezone.now() - DROPPED_AFTER)
    return list(untold.visible_to(Principal(user)).order_by("-event")[: MOST + 1])


def send_mail(user: User, pings: list[Ping]) -> bool:
    """Send one mail about these pings, which are of one thread; whether it could be sent."""
    events = Event.objects.filter(pk__in=[ping.event_id for ping in pings])
    records = {event["id"]: event for event in event_records(events.rows(), site_url())}
    told = [told_of(ping, records[ping.event_id]) for ping in pings]
    proof = urlencode({"token": unsubscribe_proof(user)})
    unsubscribe = f"{site_url()}{reverse('unsubscribe')}?{proof}"
    context = {"user": user, "told": told[:MOST], "more": len(told) > MOST, "link": unsubscribe}
    headers = {
        "List-Unsubscribe": f"<{unsubscribe}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Auto-Submitted": "auto-generated",
    }
    text = render_to_string("web/mail/pings.txt", context)
    return mail.send(user.email, subject_of(records[pings[0].event_id]), text, headers)


def told_of(ping: Ping, event: dict[str, Any]) -> dict[str, str]:
    """One ping as the mail has it: a sentence, and where to look."""
    who = event["actor_user_username"] or "Somebody"
    team = f" {event['team_slug']}" if ping.kind == PingKind.ADDED else ""
    return {
        "words": f"{who} {PING_WORDS[ping.kind]}{team}",
        "url": event["summary"]["web_url"] or site_url(),
    }


def subject_of(event: dict[str, Any]) -> str:
    """`[teams/acme/api] Slow pushes`; of a team `[teams/acme] You were added`."""
    title = event["summary"]["thread_title"]
    if title is None:
        return f"[teams/{event['team_slug']}] You were added to the team"
    return f"[{event['repo_path']}] {title}"
