"""Who may give which role, and how often a team may change its slug."""

from __future__ import annotations

import math

from apps.core.access import Level
from apps.core.errors import Conflict, TooMany
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import KEPT_FOR, KEPT_MOST, Member, Role, Team, kept_since

OWNERS_ONLY = frozenset({Role.ADMIN, Role.OWNER})


def may_set(by: TeamAccess, *roles: str) -> bool:
    """Whether somebody may give and take these roles, as far as their access knows: what pages
    offer. `check_may_set` decides.
    """
    return by.level >= (Level.OWNER if OWNERS_ONLY.intersection(roles) else Level.ADMIN)


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
        raise Conflict("last_owner", "A team needs an owner. Make somebody else an owner first.")


def check_may_give_up_slug(team: Team) -> None:
    """429 `rate_limited` while as many former slugs are kept for the team as there may be.

    It says when the oldest of them is kept no longer. The caller holds the team's lock.
    """
    since = kept_since()
    kept = team.former_slugs.filter(given_up_at__gt=since).order_by("-given_up_at")
    for oldest in kept[KEPT_MOST - 1 : KEPT_MOST]:
        wait = math.ceil((oldest.given_up_at - since).total_seconds())
        free_at = oldest.given_up_at + KEPT_FOR
        raise TooMany(
            "rate_limited",
            f"{KEPT_MOST} slugs that this team gave up are kept for it, which is the most. It may "
            f"take one of them again, or give up another from {free_at:%Y-%m-%d %H:%M} UTC on.",
            headers={"Retry-After": str(wait)},
        )
