"""Actions on teams and members. Each is one transaction with one change and its event."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.models import Deletion, User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_confirmed
from apps.core.access import Level, Permission
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind, PingKind
from apps.events.record import Deleted, Keys, record
from apps.teams import rules
from apps.teams.access import TeamAccess
from apps.teams.models import FormerTeamSlug, Member, Role, Team, reserved_since

PUBLIC = ("name", "slug", "is_active")
"""The fields whose values every reader of `team-updated` may see."""


@final_transaction
def create_team(*, principal: Principal, name: str, slug: str) -> Team:
    """Create a team, with its creator as its first owner. 401, 409 `slug_taken`."""
    principal.check_permission(Permission.ADMIN)
    team = Team(name=name, slug=slug)
    _save(team)
    _take_slug(team)
    Member.objects.create(team=team, user=principal.user, role=Role.OWNER, added_by=principal.user)
    record(Kind.TEAM_CREATED, actor=principal.user, about=team)
    return team


@transaction.atomic
def update_team(
    *,
    access: TeamAccess,
    name: str | None = None,
    slug: str | None = None,
    is_active: bool | None = None,
) -> None:
    """Change a team's name or slug, deactivate it or activate it again. Locks the team.

    Arguments that are None change nothing.

    The former slug leads to the team until another team takes it, which is possible after 90 days.
    Errors: 403, 409 `slug_taken`, 429 `rate_limited` if the team has given up many slugs recently.
    """
    access.require_change(Level.OWNER)
    team = access.team
    lock(team)
    former, changes = team.slug, ChangeReport(team, *PUBLIC)
    changed = set_changed(team, given(name=name, slug=slug, is_active=is_active))
    if not changed:
        return
    team.updated_at = timezone.now()
    _save(team, [*changed, "updated_at"])
    if "slug" in changed:
        _take_slug(team)
        rules.check_may_give_up_slug(team)
        FormerTeamSlug.objects.create(team=team, slug=former)
    record(Kind.TEAM_UPDATED, actor=access.user, about=team, data=changes.data(changed))


@transaction.atomic
def delete_team(*, access: TeamAccess, confirm: str) -> Deletion:
    """Delete a team and its repositories, for its owners; `confirm` is its slug.

    All of it is gone for everybody at once, and can be restored until the deletion's `purge_at`.
    The slug stays reserved until then. Locks the team, then its repositories. Errors: 401, 403,
    404, 422.
    """
    access.require_change(Level.OWNER)
    team = access.team
    check_confirmed(team.slug, confirm)
    lock(team)
    deletion = Deletion.begin(team.path, access.user)
    team.repos.all().hide(deletion)
    team.deletion = deletion
    team.save(update_fields=["deletion"])
    about, data = Deleted(team, Keys(site=True)), deletion.event_data()
    record(Kind.TEAM_DELETED, actor=access.user, about=about, data=data)
    return deletion


@final_transaction
def add_member(*, access: TeamAccess, user: User, role: str) -> Member:
    """Add a member with a role. Locks the team, then the person.

    Errors: 403 `role_required` if the caller may not give this role, 403 `team_inactive`, 409
    `member_exists`, 422 for an inactive account.
    """
    access.require_change(Level.ADMIN)
    _lock(access)
    lock(user)  # nobody joins a team while they are off-boarded
    if not user.is_active:
        raise Invalid("validation_failed", f"username: {user.username} has been deactivated.")
    rules.check_may_set(access, role)
    try:
        with transaction.atomic():
            member = Member.objects.create(
                team=access.team, user=user, role=role, added_by=access.user
            )
    except IntegrityError:
        raise Conflict("member_exists", f"{user.username} is already a member.") from None
    pings, data = [(user, PingKind.ADDED)], _member_data(member)
    record(Kind.MEMBER_ADDED, actor=access.user, about=member, data=data, pings=pings)
    return member


@transaction.atomic
def update_member(*, access: TeamAccess, member: Member, role: str | None = None) -> None:
    """Change a member's role; None changes nothing. Locks team and member.

    Errors: 403 as in `add_member`, 409 `last_owner`.
    """
    access.require_change(Level.ADMIN)
    _lock(access, member)
    role = member.role if role is None else role
    rules.check_may_set(access, member.role, role)
    if member.role == role:
        return
    rules.check_not_last_owner(member)
    before, member.role = member.role, role
    member.save(update_fields=["role"])
    data = {**_member_data(member), "before": before}
    record(Kind.MEMBER_UPDATED, actor=access.user, about=member, data=data)


@transaction.atomic
def remove_member(*, access: TeamAccess, member: Member) -> None:
    """Remove a member. Members may remove themselves, even from an inactive team.

    Locks the team, then the member. Errors: 403 as in `add_member`, 409 `last_owner`.
    """
    leaving = member.user_id == access.user.pk
    access.require_change(Level.NONE if leaving else Level.ADMIN, Permission.ADMIN)
    _lock(access, member, even_inactive=leaving)
    if not leaving:
        rules.check_may_set(access, member.role)
    rules.check_not_last_owner(member)
    data = _member_data(member)
    Member.objects.filter(pk=member.pk).delete()
    record(Kind.MEMBER_REMOVED, actor=access.user, about=member, data=data)


def _lock(access: TeamAccess, member: Member | None = None, *, even_inactive: bool = False) -> None:
    """Lock the team, then the member. 403 for an inactive team unless `even_inactive`; 404."""
    lock(access.team)
    access.check_open(writing=not even_inactive)
    if member is not None:
        access.check_holds(member)
        lock(member)


def _member_data(member: Member) -> dict[str, str]:
    return {"username": member.user.username, "role": member.role}


def _save(team: Team, fields: list[str] | None = None) -> None:
    try:
        with transaction.atomic():
            team.save(update_fields=fields)
    except IntegrityError:
        raise Conflict("slug_taken", f'The team slug "{team.slug}" is taken.') from None


def _take_slug(team: Team) -> None:
    """Remove the team's slug from the former slugs; 409 while it is reserved for another team.

    Call it after the team is saved, because saving waits for a transaction that gives the slug up.
    """
    former = FormerTeamSlug.objects.filter(slug=team.slug).first()
    if former is None:
        return
    if former.team_id != team.pk and former.given_up_at > reserved_since():
        text = f'The team slug "{team.slug}" is taken: another team gave it up recently.'
        raise Conflict("slug_taken", text)
    former.delete()
