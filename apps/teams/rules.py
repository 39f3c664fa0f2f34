"""Rules about giving roles, and about how often a team may change its slug."""

from __future__ import annotations

import math

from apps.core.access import Level
from apps.core.errors import Conflict, Forbidden, Invalid, TooMany
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import (
    MOST_BOTS,
    MOST_RESERVED,
    RESERVED_FOR,
    Member,
    Role,
    Team,
    reserved_since,
)

OWNERS_ONLY = frozenset({Role.ADMIN, Role.OWNER})


def may_set(access: TeamAccess, *roles: str) -> bool:
    """Whether the loaded access allows giving and taking these roles, to decide what pages offer.

    Actions use `check_may_set`.
    """
    return access.level >= (Level.OWNER if OWNERS_ONLY.intersection(roles) else Level.ADMIN)


def check_may_set(access: TeamAccess, *roles: str) -> None:
    """403 unless the caller may give and take these roles: owners all, admins viewer and member.

    Reads the caller's role again; call it while the team is locked.
    """
    current = access_to_team(access.principal, access.team)
    current.require(Level.OWNER if OWNERS_ONLY.intersection(roles) else Level.ADMIN)


def check_not_last_owner(member: Member) -> None:
    """409 for the last owner of a team. The caller holds the team's lock."""
    if member.role != Role.OWNER:
        return
    owners = Member.objects.filter(team=member.team_id, role=Role.OWNER).exclude(pk=member.pk)
    if not owners.exists():
        raise Conflict("last_owner", "A team needs an owner. Make somebody else an owner first.")


def check_may_require_factor(access: TeamAccess) -> None:
    """403 unless the caller is staff, and has a second factor if the team requires one now: others
    are not asked for more than one does oneself.
    """
    access.principal.check_staff()
    if access.team.second_factor_required and not access.user.has_second_factor:
        raise Forbidden(
            "second_factor_required",
            "Add a second factor to your own account before you require one.",
        )


def check_bot_role(role: str) -> None:
    """422 for the role of an owner, which no bot has."""
    if role == Role.OWNER:
        raise Invalid("validation_failed", "role: A bot cannot be an owner.")


def check_bot_limit(team: Team) -> None:
    """409 `bot_limit` if the team has `MOST_BOTS` bots. The caller holds the team's lock."""
    if len(team.members.filter(user__is_bot=True)[:MOST_BOTS]) == MOST_BOTS:
        raise Conflict("bot_limit", f"{team} has {MOST_BOTS} bots, the most allowed. Delete one.")


def check_may_give_up_slug(team: Team) -> None:
    """429 `rate_limited` if `MOST_RESERVED` former slugs are reserved for the team already. The
    caller holds the team's lock.
    """
    since = reserved_since()
    reserved = team.former_slugs.filter(given_up_at__gt=since).order_by("-given_up_at")
    for oldest in reserved[MOST_RESERVED - 1 : MOST_RESERVED]:
        wait = math.ceil((oldest.given_up_at - since).total_seconds())
        free_at = oldest.given_up_at + RESERVED_FOR
        raise TooMany(
            "rate_limited",
            f"{MOST_RESERVED} former slugs are reserved for this team, the most allowed. It may "
            f"take one of them again, or give up another one after {free_at:%Y-%m-%d %H:%M} UTC.",
            headers={"Retry-After": str(wait)},
        )
