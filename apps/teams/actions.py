"""What changes teams and members. Each function is one transaction, one change and its event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.core.changes import given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.teams import rules
from apps.teams.models import FormerTeamSlug, Member, Role, Team

if TYPE_CHECKING:
    from apps.accounts.models import User


@transaction.atomic
def create_team(*, actor: User, name: str, slug: str) -> Team:
    """Make a team whose first owner is its creator. 409 `slug_taken`."""
    try:
        with transaction.atomic():
            team = Team.objects.create(name=name, slug=slug)
    except IntegrityError:
        raise _slug_taken(slug) from None
    FormerTeamSlug.objects.filter(slug=slug).delete()
    Member.objects.create(team=team, user=actor, role=Role.OWNER, added_by=actor)
    record(Kind.TEAM_CREATED, actor=actor, about=team)
    return team


@transaction.atomic
def update_team(
    *, actor: User, team: Team, name: str, slug: str, is_active: bool | None = None
) -> None:
    """Rename, re-address, retire or revive a team. Locks it. 409 `slug_taken`.

    The slug it had leads to it until somebody takes it (behaviour.md trap 14).
    """
    lock(team)
    former = team.slug
    changed = set_changed(team, given(name=name, slug=slug, is_active=is_active))
    if not changed:
        return
    team.updated_at = timezone.now()
    try:
        with transaction.atomic():
            team.save(update_fields=[*changed, "updated_at"])
    except IntegrityError:
        raise _slug_taken(slug) from None
    if slug != former:
        FormerTeamSlug.objects.filter(slug=slug).delete()
        FormerTeamSlug.objects.create(team=team, slug=former)
    record(Kind.TEAM_UPDATED, actor=actor, about=team, data={"changed": changed})


@transaction.atomic
def add_member(*, actor: User, team: Team, user: User, role: str) -> Member:
    """Give somebody a role in the team. Locks the team.

    Errors: 403 `role_required` for a role above the actor's reach, 409 `member_exists`, 422 for
    an inactive account.
    """
    lock(team)
    if not user.is_active:
        raise Invalid("validation_failed", f"username: {user.username} has been deactivated.")
    rules.check_may_set(actor, team, role)
    try:
        with transaction.atomic():
            member = Member.objects.create(team=team, user=user, role=role, added_by=actor)
    except IntegrityError:
        raise Conflict("member_exists", f"{user.username} is a member already.") from None
    record(Kind.MEMBER_ADDED, actor=actor, about=member, data=_about(member))
    return member


@transaction.atomic
def update_member(*, actor: User, member: Member, role: str) -> None:
    """Change a role. Locks the team, then the member. 409 `last_owner`."""
    lock(member.team)
    lock(member)
    rules.check_may_set(actor, member.team, member.role, role)
    if member.role == role:
        return
    rules.check_not_last_owner(member)
    before, member.role = member.role, role
    member.save(update_fields=["role"])
    data = {**_about(member), "before": before}
    record(Kind.MEMBER_UPDATED, actor=actor, about=member, data=data)


@transaction.atomic
def remove_member(*, actor: User, member: Member) -> None:
    """End a membership; everybody may end their own. Locks the team, then the member.

    409 `last_owner`.
    """
    lock(member.team)
    lock(member)
    if member.user_id != actor.pk:
        rules.check_may_set(actor, member.team, member.role)
    rules.check_not_last_owner(member)
    data = _about(member)
    Member.objects.filter(pk=member.pk).delete()
    record(Kind.MEMBER_REMOVED, actor=actor, about=member, data=data)


def _about(member: Member) -> dict[str, str]:
    return {"username": member.user.username, "role": member.role}


def _slug_taken(slug: str) -> Conflict:
    return Conflict("slug_taken", f'The team slug "{slug}" is taken.')
