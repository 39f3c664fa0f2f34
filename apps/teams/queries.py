"""What the API, the pages and the admin read of teams and members."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import OuterRef, QuerySet, Subquery

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.teams.models import Member, Team, TeamQuerySet


def list_teams(principal: Principal, *, everybodys: bool = False) -> TeamQuerySet:
    """The teams that somebody is in, or all of them, by slug, with their `caller_role` in each."""
    teams = Team.objects.all() if everybodys else Team.objects.visible_to(principal)
    own = Member.objects.filter(team=OuterRef("pk"), user=principal.user)
    return teams.annotate(caller_role=Subquery(own.values("role")[:1])).order_by("slug")


def list_members(team: Team) -> QuerySet[Member]:
    """The members of a team, oldest first, with who added each."""
    return team.members.select_related("user", "added_by").order_by("created_at", "id")


def suggest_users(principal: Principal, *, name: str, email: str) -> list[User]:
    """Active people whose username or display name begins so, or who have this very address.

    At most 10. Somebody without a token gets at most 5, for 2 letters or more, and none by address.
    """
    size, least = (10, 1) if principal.is_signed_in else (5, 2)
    people = User.objects.filter(is_active=True)
    found: list[User] = []
    if email and principal.is_signed_in:
        found += people.filter(email_key=email.lower())
    if len(name) >= least:
        found += people.beginning("username", name)[:size]
        found += people.beginning("display_name", name)[:size]
    return list(dict.fromkeys(found))[:size]


def members_among(people: Collection[User], team: Team | None) -> set[int]:
    """The ids of those of these people who are in the team."""
    if team is None:
        return set()
    return set(team.members.filter(user__in=people).values_list("user", flat=True))
