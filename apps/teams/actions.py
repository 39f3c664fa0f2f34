"""Actions on teams and members. Each is one transaction with one change and its event."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.actions import create_token, delete_token, revoke_token, rotate_token
from apps.accounts.models import NOT_GONE, ApiToken, Deletion, User
from apps.accounts.principal import Principal
from apps.accounts.rules import (
    check_confirmed,
    check_display_name,
    check_no_bot,
    check_username,
)
from apps.accounts.sessions import end_all_sessions
from apps.core.access import Level, Permission
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events import wake
from apps.events.kinds import Kind, PingKind
from apps.events.record import Change, Deleted, Keys, record, record_all
from apps.teams import rules
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.models import FormerTeamSlug, Member, Role, Team, reserved_since

PUBLIC = ("name", "slug", "is_active", "second_factor_required")
"""The fields whose values every reader of `team-updated` may see."""


@final_transaction
def create_team(*, principal: Principal, name: str, slug: str) -> Team:
    """Create a team, with its creator as its first owner. 401, 403 `person_required` for a bot, 409
    `slug_taken`.
    """
    principal.check_permission(Permission.ADMIN)
    principal.check_person()
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
    second_factor_required: bool | None = None,
) -> None:
    """Change a team's name or slug, deactivate it or activate it again. Locks the team.

    Arguments that are None change nothing. Only staff may change whether the team requires a second
    factor. If it does from now on, the sessions of members without one end.

    The former slug leads to the team until another team takes it, which is possible after 90 days.
    Errors: 403, 403 `second_factor_required` for staff that requires one and has none, 409
    `slug_taken`, 429 `rate_limited` if the team has given up many slugs recently.
    """
    access.require_change(Level.OWNER)
    team = access.team
    lock(team)
    former, changes = team.slug, ChangeReport(team, *PUBLIC)
    values = given(name=name, slug=slug, is_active=is_active)
    values |= given(second_factor_required=second_factor_required)
    changed = set_changed(team, values)
    if not changed:
        return
    if "second_factor_required" in changed:
        rules.check_may_require_factor(access)
        _end_sessions_without_factor(team)
    team.updated_at = timezone.now()
    _save(team, [*changed, "updated_at"])
    if "slug" in changed:
        _take_slug(team)
        rules.check_may_give_up_slug(team)
        FormerTeamSlug.objects.create(team=team, slug=former)
    record(Kind.TEAM_UPDATED, actor=access.user, about=team, data=changes.data(changed))


def _end_sessions_without_factor(team: Team) -> None:
    """End the sessions of the members without a second factor, if the team requires one now. Open
    streams of their tokens are checked too.
    """
    if not team.second_factor_required:
        return
    people = User.objects.filter(NOT_GONE, memberships__team=team, has_second_factor=False)
    for user in people.filter(is_bot=False).order_by("pk"):
        lock(user)
        user.save(update_fields=end_all_sessions(user))


@transaction.atomic
def delete_team(*, access: TeamAccess, confirm: str) -> Deletion:
    """Delete a team and its repositories, for its owners; `confirm` is its slug.

    All of it is gone for everybody at once, and can be restored until the deletion's `purge_at`.
    The slug stays reserved until then. The bots of the team go and come back with it. Locks the
    team, its repositories, then the bots. Errors: 401, 403, 404, 422.
    """
    access.require_change(Level.OWNER)
    team = access.team
    check_confirmed(team.slug, confirm)
    lock(team)
    deletion = Deletion.begin(team.path, access.user)
    team.repos.all().hide(deletion)
    _hide_bots(team, deletion)
    team.deletion = deletion
    team.save(update_fields=["deletion"])
    about, data = Deleted(team, Keys(site=True, audit_team=team.pk)), deletion.event_data()
    record(Kind.TEAM_DELETED, actor=access.user, about=about, data=data)
    return deletion


@final_transaction
def add_member(*, access: TeamAccess, user: User, role: str) -> Member:
    """Add a member with a role. Locks the team, then the person.

    Errors: 403 `role_required` if the caller may not give this role, 403 `team_inactive`, 409
    `member_exists`, 422 for an inactive account and for a bot, which has one team.
    """
    access.require_change(Level.ADMIN)
    _lock(access)
    lock(user)  # nobody joins a team while they are off-boarded
    if not user.is_active:
        raise Invalid("validation_failed", f"username: {user.username} has been deactivated.")
    check_no_bot(user, "username")
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

    Errors: 403 as in `add_member`, 409 `last_owner`, 422 for a bot that would be an owner.
    """
    access.require_change(Level.ADMIN)
    _lock(access, member)
    role = member.role if role is None else role
    rules.check_may_set(access, member.role, role)
    if member.role == role:
        return
    if role == Role.OWNER:
        check_no_bot(member.user, "role")
    rules.check_not_last_owner(member)
    before, member.role = member.role, role
    member.save(update_fields=["role"])
    data = {**_member_data(member), "before": before}
    record(Kind.MEMBER_UPDATED, actor=access.user, about=member, data=data)


@transaction.atomic
def remove_member(*, access: TeamAccess, member: Member) -> None:
    """Remove a member. Members may remove themselves, even from an inactive team.

    Locks the team, then the member. Errors: 403 as in `add_member`, 409 `last_owner`, 409
    `invalid_transition` for a bot, which would be left without a team.
    """
    leaving = member.user_id == access.user.pk
    access.require_change(Level.NONE if leaving else Level.ADMIN, Permission.ADMIN)
    _lock(access, member, even_inactive=leaving)
    if not leaving:
        rules.check_may_set(access, member.role)
    rules.check_not_last_owner(member)
    if member.user.is_bot:
        text = f"{member.user} is a bot of this team. Delete the bot instead."
        raise Conflict("invalid_transition", text)
    data = _member_data(member)
    Member.objects.filter(pk=member.pk).delete()
    record(Kind.MEMBER_REMOVED, actor=access.user, about=member, data=data)


@transaction.atomic
def set_members_by_group(*, user: User, roles: Mapping[str, Role]) -> list[str]:
    """Give a person the memberships of their groups at the OpenID provider, by the slug of the
    team, and take those that groups gave before.

    Memberships that people gave stay as they are. An inactive team gets no member, but loses them.
    Returns the slugs of the teams that keep the person as their last owner. Locks the teams, then
    the person.
    """
    by_group = Q(members__user=user, members__is_by_group=True)
    teams = Team.objects.filter(by_group | Q(slug__in=roles), deletion=None).distinct()
    pks = [*teams.order_by("pk").values_list("pk", flat=True)]
    rows = [*Team.objects.filter(pk__in=pks).order_by("pk")]
    for team in rows:
        lock(team)
    lock(user)
    if not user.is_active:
        return []
    kept, changes = list[str](), list[Change]()
    for team in rows:
        member = team.members.filter(user=user).first()
        try:
            changes += _member_by_group(team, user, member, roles.get(team.slug))
        except Conflict:
            kept.append(team.slug)
    if changes:
        record_all(changes)
    return kept


def _member_by_group(
    team: Team, user: User, member: Member | None, role: Role | None
) -> list[Change]:
    """Set a membership by group; 409 `last_owner`."""
    if member is None:
        if role is None or not team.is_active:
            return []
        member = Member.objects.create(team=team, user=user, role=role, is_by_group=True)
        pings = [(user, PingKind.ADDED)]
        return [Change(Kind.MEMBER_ADDED, None, member, _member_data(member), pings)]
    if not member.is_by_group or member.role == role or (role is not None and not team.is_active):
        return []
    rules.check_not_last_owner(member)
    before = _member_data(member)
    if role is None:
        Member.objects.filter(pk=member.pk).delete()
        return [Change(Kind.MEMBER_REMOVED, None, member, before)]
    member.role = role
    member.save(update_fields=["role"])
    data = {**_member_data(member), "before": before["role"]}
    return [Change(Kind.MEMBER_UPDATED, None, member, data)]


@final_transaction
def create_bot(
    *, access: TeamAccess, username: str, display_name: str = "", role: str = Role.MEMBER
) -> Member:
    """Create a bot of a team, for its owners; return its membership. Locks the team.

    A bot is an account without password and address. Errors: 403, 409 `bot_limit`, 409
    `slug_taken`, 422 for an invalid name and for the role of an owner.
    """
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock(access)
    rules.check_may_set(access, role)
    rules.check_bot_role(role)
    rules.check_bot_limit(access.team)
    check_username(username)
    check_display_name(display_name)
    bot = User(username=username, display_name=display_name, is_bot=True)
    bot.set_unusable_password()
    try:
        with transaction.atomic():
            bot.save()
    except IntegrityError:
        raise Conflict("slug_taken", f'The username "{bot}" is taken.') from None
    member = Member.objects.create(team=access.team, user=bot, role=role, added_by=access.user)
    record(Kind.USER_JOINED, actor=access.user, about=bot)
    record(Kind.MEMBER_ADDED, actor=access.user, about=member, data=_member_data(member))
    return member


@transaction.atomic
def update_bot(*, access: TeamAccess, bot: Member, display_name: str | None = None) -> None:
    """Change the display name of a bot, for the owners of its team; None changes nothing.

    Locks the team, the member, then the bot. Errors: 403, 404, 422.
    """
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot)
    changes = ChangeReport(bot.user, "display_name")
    changed = set_changed(bot.user, given(display_name=display_name))
    if not changed:
        return
    check_display_name(bot.user.display_name)
    bot.user.save(update_fields=changed)
    record(Kind.USER_UPDATED, actor=access.user, about=bot.user, data=changes.data(changed))


@transaction.atomic
def delete_bot(*, access: TeamAccess, bot: Member) -> None:
    """Close the account of a bot for good, for the owners of its team, also of an inactive team.

    Its tokens are revoked, its streams and pushes end, and it leaves the team. Its texts stay under
    its name, which nobody else can take. Locks the team, the member, then the bot. 403, 404.
    """
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot, even_inactive=True)
    user, actor = bot.user, access.user
    user.bot_team_id = access.team.pk  # the events come after the end of the membership
    tokens = [*user.tokens.filter(revoked_at=None).order_by("pk")]
    user.tokens.filter(revoked_at=None).update(revoked_at=timezone.now())
    user.is_active = False
    user.save(update_fields=["is_active"])
    removal = Change(Kind.MEMBER_REMOVED, actor, bot, _member_data(bot))
    Member.objects.filter(pk=bot.pk).delete()
    revoked = (Change(Kind.TOKEN_REVOKED, actor, token, {"name": token.name}) for token in tokens)
    record_all([*revoked, removal, Change(Kind.USER_DEACTIVATED, actor, user)])


@final_transaction
def create_bot_token(
    *,
    access: TeamAccess,
    bot: Member,
    name: str,
    expires_at: dt.datetime | None = None,
    permission: str = Permission.ADMIN,
    repo_paths: Sequence[str] | None = None,
) -> tuple[ApiToken, str]:
    """Create a token of a bot, as `create_token` of accounts does. The team is locked, to the
    effect that somebody who stops being an owner meanwhile creates none.
    """
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot)
    return create_token(
        principal=access.principal,
        owner=bot.user,
        name=name,
        expires_at=expires_at,
        permission=permission,
        repo_paths=repo_paths,
    )


@transaction.atomic
def rotate_bot_token(
    *, access: TeamAccess, bot: Member, token: ApiToken, keep_old: dt.timedelta = dt.timedelta()
) -> str:
    """Give a token of a bot a new text, as `rotate_token` of accounts does. Locks the team."""
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot)
    return rotate_token(principal=access.principal, token=token, keep_old=keep_old)


@transaction.atomic
def delete_bot_token(*, access: TeamAccess, bot: Member, token: ApiToken) -> None:
    """Delete a token of a bot, also in an inactive team. Locks the team."""
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot, even_inactive=True)
    delete_token(principal=access.principal, token=token)


@transaction.atomic
def revoke_bot_token(*, access: TeamAccess, bot: Member, token: ApiToken) -> None:
    """Revoke a token of a bot for good, also in an inactive team. Locks the team."""
    access.require_change(Level.OWNER, Permission.ADMIN)
    _lock_bot(access, bot, even_inactive=True)
    revoke_token(principal=access.principal, token=token)


def _lock_bot(access: TeamAccess, bot: Member, *, even_inactive: bool = False) -> None:
    _lock(access, bot, even_inactive=even_inactive)
    access_to_team(access.principal, access.team).require(Level.OWNER)
    lock(bot.user)


def _hide_bots(team: Team, deletion: Deletion) -> None:
    """Close the accounts of a team's bots with the team. The caller has locked the team.

    Deactivated bots are left out, because a restoration activates all accounts of the deletion.
    """
    bots = User.objects.filter(is_bot=True, deletion=None, memberships__team=team)
    pks = [*bots.filter(is_active=True).values_list("pk", flat=True)]
    rows = User.objects.filter(pk__in=pks, is_active=True)  # not if deactivated meanwhile
    rows.update(deletion=deletion, is_active=False)
    for pk in pks:
        wake.notify_on_commit(pk)


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
