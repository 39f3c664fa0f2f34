"""Who may give which role."""

from __future__ import annotations

from apps.core.access import Level
from apps.core.errors import Conflict
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import Member, Role

OWNERS_ONLY = frozenset({Role.ADMIN, Role.OWNER})


def check_may_set(by: TeamAccess, *roles: str) -> None:
    """Admins give and take viewer and member, only owners admin and owner; 403.

    The caller holds the team's lock, under which the own role is read anew.
    """
    access = access_to_team(by.principal, by.team)
    access.require(Level.OWNER if OWNERS_ONLY.intersection(roles) else Level.ADMIN)


def check_not_last_owner(member: Member) -> None:
    """A team always keeps an owner. The caller holds the team's lock."""
    if member.role != Role.OWNER:
        return
    owners = Member.objects.filter(team=member.team_id, role=Role.OWNER).exclude(pk=member.pk)
    if not owners.exists():
        raise Conflict("last_owner", "A team needs an owner. Make somebody else one first.")
