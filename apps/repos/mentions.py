"""Whom a text in a repository pings: those of the people it names who may read it there.

A name that nobody has, and one of somebody who may not read, are alike: nothing happens. Texts are
given as `markdown.render` made them, before any lock: to parse one takes long.
"""

from __future__ import annotations

from collections.abc import Collection

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
"""Names in one text; a text with more pings nobody by them."""


def readers(repo: Repo, *, names: Collection[str] = (), ids: Collection[int] = ()) -> list[User]:
    """Those of these people, by username in lower case or by id, who may read the repository.

    One query, none for nobody. The inactive are not among them.
    """
    if not names and not ids:
        return []
    roles = Member.objects.filter(team=repo.owner_team_id, user=OuterRef("pk"))
    people = User.objects.filter(Q(username_key__in=names) | Q(pk__in=ids), is_active=True)
    found = people.annotate(role=Subquery(roles.values("role")[:1])).order_by("pk")
    return [one for one in found if _level(repo, one) >= Level.READ]


def _level(repo: Repo, person: User) -> Level:
    role: str | None = getattr(person, "role", None)
    return level_on(Principal(person), repo, role)


def names_in(kept: str) -> frozenset[str]:
    """The usernames that a text mentions outside of code, in lower case; none of too many."""
    names = frozenset(name.lower() for name in mentions(kept))
    return names if len(names) <= MENTIONS_MAX else frozenset()


def pings_of_text(repo: Repo, kept: str, *, answered: Collection[int] = ()) -> list[Pinged]:
    """Whom a new text pings: those it mentions, and those, by id, whom it answers; one query."""
    names = names_in(kept)
    people = readers(repo, names=names, ids=answered)
    mentioned = [(one, PingKind.MENTION) for one in people if one.username_key in names]
    return [*mentioned, *((one, PingKind.REPLY) for one in people if one.pk in answered)]


def pings_of_edit(repo: Repo, about: Recorded, before: str, after: str) -> list[Pinged]:
    """Whom an edited text pings: those it mentions now and did not mention before.

    Not those whom an earlier version of it has pinged by a mention. Two queries, none where no
    name is new.
    """
    people = readers(repo, names=names_in(after) - names_in(before))
    thread, text = about.event_keys().thread or 0, about.event_target().api or ""
    pinged = Ping.objects.all().mentioned_in(thread, text, [one.pk for one in people])
    return [(one, PingKind.MENTION) for one in people if one.pk not in pinged]
