"""Queries for teams and members, for the API, pages and admin."""

from __future__ import annotations

from django.db.models import F, OuterRef, QuerySet, Subquery

from apps.accounts.models import NOT_GONE, User
from apps.accounts.principal import Principal
from apps.teams.models import Member, Team, TeamQuerySet


def list_teams(principal: Principal, *, everybodys: bool = False) -> TeamQuerySet:
    """The principal's teams, or everybody's, by slug, annotated with `caller_role`."""
    teams = Team.objects.filter(NOT_GONE) if everybodys else Team.objects.visible_to(principal)
    own = Member.objects.filter(team=OuterRef("pk"), user=principal.user.pk)
    return teams.annotate(caller_role=Subquery(own.values("role")[:1])).order_by("slug")


def accessible_teams(principal: Principal) -> TeamQuerySet:
    """As `list_teams`, without those whose second factor the principal lacks."""
    return list_teams(principal).open_to(principal)


def list_teams_of(principal: Principal, owner: User) -> TeamQuerySet:
    """A person's teams, by slug, annotated with their `role`, and with `caller_role`. The caller
    has already checked who may see them.
    """
    teams = list_teams(principal, everybodys=True).filter(members__user=owner)
    return teams.annotate(role=F("members__role"))


def list_members(team: Team) -> QuerySet[Member]:
    """The members of a team, oldest first, with `added_by`."""
    members = team.members.filter(user__deletion=None).select_related("user", "added_by")
    return members.order_by("created_at", "id")


def list_bots(team: Team) -> QuerySet[Member]:
    """The memberships of a team's bots, oldest first, with `added_by`."""
    return list_members(team).filter(user__is_bot=True)


def suggest_users(
    principal: Principal, *, name: str, email: str, people_only: bool = False
) -> list[User]:
    """Active people whose username or display name begins with `name`, or whose address is `email`.

    Bots too, unless `people_only`. At most 10. Anonymous callers get at most 5, need at least 2
    letters, and cannot search by address.
    """
    size, least = (10, 1) if principal.is_signed_in else (5, 2)
    people = User.objects.filter(is_active=True)
    if people_only:
        people = people.filter(is_bot=False)
    users: list[User] = []
    if email and principal.is_signed_in:
        users += people.filter(email_key=email.lower())
    if len(name) >= least:
        users += people.beginning("username", name)[:size]
        users += people.beginning("display_name", name)[:size]
    return list(dict.fromkeys(users))[:size]
