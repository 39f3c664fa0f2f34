"""The people whom a text in a repository pings: those it mentions, if they may read the repository.

Unknown names and names of people without access are ignored. Texts are passed as `markdown.render`
made them, before any lock, because parsing is slow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import OuterRef, Q, Subquery

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.markdown import mentions
from apps.events.kinds import PingKind
from apps.events.models import Ping
from apps.events.record import Pinged, Recorded
from apps.repos.access import level_on
from apps.repos.models import Repo
from apps.teams.models import Member

MENTIONS_MAX = 50
"""Most mentioned names of a text. A text with more pings none of them."""


def readers(repo: Repo, *, names: Collection[str] = (), ids: Collection[int] = ()) -> list[User]:
    """The active people by username in lower case or by id who may read this; one query."""
    if not names and not ids:
        return []
    roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("pk"))
    people = User.objects.filter(Q(username_key__in=names) | Q(pk__in=ids), is_active=True)
    rows: Any = people.annotate(role=Subquery(roles.values("role")[:1])).order_by("pk")
    return [
        person for person in rows if level_on(Principal(person), repo, person.role) >= Level.READ
    ]


def names_in(html: str) -> frozenset[str]:
    """The usernames that a text mentions outside of code, in lower case; none if too many."""
    names = frozenset(name.lower() for name in mentions(html))
    return names if len(names) <= MENTIONS_MAX else frozenset()


def pings_of_text(repo: Repo, html: str, *, answered: Collection[int] = ()) -> list[Pinged]:
    """The pings of a new text: of mentioned people, and of those it answers, by id; one query."""
    return pings_of_texts(repo, [html], answered=answered)


def pings_of_texts(
    repo: Repo, texts: Iterable[str], *, answered: Collection[int] = ()
) -> list[Pinged]:
    """The pings of new texts that have one event; see `pings_of_text`."""
    names = frozenset[str]().union(*map(names_in, texts))
    people = readers(repo, names=names, ids=answered)
    mentioned = [(person, PingKind.MENTION) for person in people if person.username_key in names]
    replies = [(person, PingKind.REPLY) for person in people if person.pk in answered]
    return [*mentioned, *replies]


def pings_of_edit(repo: Repo, about: Recorded, before: str, after: str) -> list[Pinged]:
    """The pings of an edited text: of newly mentioned people whom it has not pinged before."""
    people = readers(repo, names=names_in(after) - names_in(before))
    thread, text = about.event_keys().thread or 0, about.event_target().api or ""
    pinged = Ping.objects.all().mentioned_in(thread, text, [person.pk for person in people])
    return [(person, PingKind.MENTION) for person in people if person.pk not in pinged]
