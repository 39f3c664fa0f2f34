"""The action that off-boards a person."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.accounts.actions import deactivate_user
from apps.accounts.models import User
from apps.accounts.principal import ANONYMOUS, Principal
from apps.accounts.rules import check_staff_remains, named_user
from apps.core.changes import ChangeReport
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import Change, Deleted, Keys, record_all
from apps.teams.models import Member, Role
from config.offboarding.plan import Plan, memberships_of, plan_for


@transaction.atomic
def offboard(
    *,
    principal: Principal | None,
    user: User,
    confirm: str = "",
    successor: str | None = None,
    dry_run: bool = False,
) -> Plan:
    """Off-board a person, and return what has changed. `principal` is None at the command line.

    The account is deactivated, its tokens are revoked, its SSH keys and open invites deleted, its
    sessions, live streams and pushes end, it leaves its teams and is no longer staff. All texts and
    repositories stay. `successor`, a username, becomes owner of the teams that would have none.
    With `dry_run` nothing changes; otherwise `confirm` is the person's username. Repeating it
    changes nothing. Locks the teams of the person, all active staff, then both people by id.
    Errors: 403 `staff_required`, 404, 409 `last_owner`, 409 `invalid_transition` for the last
    active member of staff, and if the person has joined a team meanwhile, 422.
    """
    if principal is not None:
        principal.check_signed_in()
        principal.check_staff()
    heir = named_user(successor) if successor else None
    if dry_run:
        return plan_for(user, heir, dry_run=True)
    if confirm != user.username:
        raise Invalid("validation_failed", f"confirm: Type {user.username} to off-board them.")
    plan = _locked_plan(user, heir)
    if principal is not None:  # the caller may have been off-boarded during the wait for locks
        principal = principal.renewed() or ANONYMOUS
        principal.check_signed_in()
        principal.check_staff()
    actor = principal.user if principal else None
    changes = [*_revoke_all(plan, actor), *_leave_all(plan, actor), *_unstaff(user, actor)]
    deactivate_user(principal=principal, user=user)
    record_all(changes)
    return plan


def _locked_plan(user: User, successor: User | None) -> Plan:
    """The plan, whose teams and people stay locked until the transaction ends."""
    teams = [member.team for member in memberships_of(user)]
    for team in teams:
        lock(team)
    check_staff_remains(user)
    people = [user, successor] if successor else [user]
    for person in sorted(people, key=lambda one: one.pk):
        lock(person)
    plan = plan_for(user, successor)
    if {member.team_id for member in plan.memberships} - {team.pk for team in teams}:
        raise Conflict("invalid_transition", f"{user} has just joined a team. Try again.")
    _check_owners_remain(plan)
    return plan


def _check_owners_remain(plan: Plan) -> None:
    """409 `last_owner` with the teams that would be left without an active owner."""
    alone = [member.team for member in plan.memberships if member.team_id in plan.owned_alone]
    if alone and plan.successor is None:
        slugs = ", ".join(team.slug for team in alone)
        text = f"{plan.user} is the last owner of {slugs}. Name a successor."
        raise Conflict("last_owner", text)


def _revoke_all(plan: Plan, actor: User | None) -> list[Change]:
    """Revoke the tokens, and delete the SSH keys and the open invites."""
    now = timezone.now()
    plan.user.tokens.filter(revoked_at=None).update(revoked_at=now)
    plan.user.invites.filter(accepted_at=None, deleted_at=None).update(deleted_at=now)
    plan.user.ssh_keys.all().delete()
    own = Keys(private_to=plan.user.pk)
    keys = [(Deleted(key, own), {"name": key.title}) for key in plan.ssh_keys]
    return [
        *(Change(Kind.SSH_KEY_DELETED, actor, key, data) for key, data in keys),
        *(Change(Kind.TOKEN_REVOKED, actor, token, {"name": token.name}) for token in plan.tokens),
        *(Change(Kind.INVITE_DELETED, actor, invite) for invite in plan.invites),
    ]


def _leave_all(plan: Plan, actor: User | None) -> list[Change]:
    """End the memberships; the successor becomes owner of the teams that would have none."""
    changes = list[Change]()
    for member in plan.memberships:
        if plan.successor is not None and member.team_id in plan.owned_alone:
            changes.append(_make_owner(member, plan.successor, actor))
        data = {"username": plan.user.username, "role": member.role}
        changes.append(Change(Kind.MEMBER_REMOVED, actor, member, data))
    Member.objects.filter(pk__in=[member.pk for member in plan.memberships]).delete()
    return changes


def _make_owner(leaving: Member, successor: User, actor: User | None) -> Change:
    before = Member.objects.filter(team=leaving.team, user=successor).first()
    new = {"role": Role.OWNER, "added_by": actor}
    member, is_new = Member.objects.update_or_create(
        team=leaving.team, user=successor, defaults={"role": Role.OWNER}, create_defaults=new
    )
    data = {"username": successor.username, "role": member.role}
    if is_new or before is None:
        return Change(Kind.MEMBER_ADDED, actor, member, data)
    return Change(Kind.MEMBER_UPDATED, actor, member, {**data, "before": before.role})


def _unstaff(user: User, actor: User | None) -> list[Change]:
    """Take the rights of staff, so that opening the account again does not give them back."""
    if not user.is_staff:
        return []
    report = ChangeReport(user, "is_staff")
    user.is_staff = user.is_superuser = False
    user.save(update_fields=["is_staff", "is_superuser"])
    return [Change(Kind.USER_UPDATED, actor, user, report.data(["is_staff"]))]
