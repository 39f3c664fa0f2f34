"""Reading the audit log, for the API and the pages."""

from __future__ import annotations

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.events.audit import AuditEntry, AuditQuerySet
from apps.teams.access import TeamAccess


def list_entries(principal: Principal) -> AuditQuerySet:
    """All entries, for staff; 403 `staff_required`."""
    principal.check_staff()
    return AuditEntry.objects.all().visible_to(principal)


def list_team_entries(access: TeamAccess) -> AuditQuerySet:
    """The entries of a team: its members, bots and their tokens, webhooks, and the settings and
    protections of its repositories. For owners; 403 `role_required`.
    """
    access.require(Level.OWNER)
    return AuditEntry.objects.filter(team_id=access.team.pk)
