"""Who may give which role (behaviour.md §9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.errors import Conflict, Forbidden
from apps.teams.access import access_to_team
from apps.teams.models import Member, Role, Team

if TYPE_CHECKING:
    from apps.accounts.models import User

OWNERS_ONLY = frozenset({Role.ADMIN, Role.OWNER})


def check_may_set(actor: User, team: Team, *roles: str) -> None:
    """Admins handle viewers and members; admins and owners are an owner's business."""
    high = OWNERS_ONLY.intersection(roles)
    needed = Level.OWNER if high else Level.ADMIN
    if access_to_team(Principal(actor), team).level < needed:
        raise Forbidden("role_required", f"This needs {needed.name.lower()} access to {team}.")


def check_not_last_owner(member: Member) -> None:
    """A team always keeps an owner. The caller holds the team's lock."""
    if member.role != Role.OWNER:
        return
    owners = Member.objects.filter(team=member.team_id, role=Role.OWNER).exclude(pk=member.pk)
    if not owners.exists():
        raise Conflict("last_owner", "A team needs an owner. Make somebody else one first.")
