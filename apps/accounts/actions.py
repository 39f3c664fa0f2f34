"""Actions on people, API tokens and invites. Each is one transaction, one change and its event."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from apps.accounts import rules
from apps.accounts.models import (
    PREFIX_LENGTH,
    ApiToken,
    BrowserSession,
    Deletion,
    Invite,
    InviteStatus,
    Theme,
    User,
    digest,
    new_token,
)
from apps.accounts.principal import Principal
from apps.accounts.proofs import proven_address
from apps.accounts.rules import check_confirmed, check_outlived
from apps.accounts.sessions import end_all_sessions
from apps.core.access import Permission
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict, Invalid, NotFound
from apps.core.json import quoted
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events import wake
from apps.events.kinds import Kind, PingKind
from apps.events.record import Deleted, Keys, Target, record
from apps.site.models import SiteSettings

PUBLIC = ("display_name", "is_active", "is_staff")
"""Fields of a person that an event may contain. An e-mail address is never one of them."""


def create_user(
    *,
    principal: Principal | None,
    username: str,
    email: str = "",
    password: str | None = None,
    is_staff: bool = False,
) -> User:
    """Create an account, as staff or at the command line.

    `principal` is None at the command line; then the event's actor is the new person. Errors: 403
    `staff_required`, 422 for an invalid name, address or password, 409 `slug_taken`.
    """
    if principal is not None:
        principal.check_staff()
    user = _new(username, email, password)
    user.is_staff = user.is_superuser = is_staff
    with transaction.atomic():
        _save(user)
        record(Kind.USER_JOINED, actor=principal.user if principal else user, about=user)
    return user


def sign_up(
    *, principal: Principal, username: str, email: str, password: str, invite: Invite | None
) -> User:
    """Create an account for the caller, if the site's settings allow it.

    `principal` is the caller, who usually is not signed in. With an invite there are two events:
    `user-joined` and `invite-accepted`. The account has no address until `confirm_email`: signing
    up needs no mail, and does not tell whether another account has the address. Locks the invite,
    so that only one person can accept it. Errors: those of `rules.check_may_join`; 422 for an
    invalid name, address or password; 409 `slug_taken`.
    """
    if invite is not None:
        invite.refresh_from_db()
    rules.check_may_join(SiteSettings.load(), invite, email)
    if not email:
        raise Invalid("validation_failed", "email: This field is required.")
    user = _new(username, email, password)
    user.email = ""
    _join(principal.person or user, user, invite, email)
    return user


@transaction.atomic
def _join(actor: User, user: User, invite: Invite | None, email: str) -> None:
    """Store the account. Checks the rules again, because hashing the password took time."""
    if invite is not None:
        lock(invite)
    rules.check_may_join(SiteSettings.load(), invite, email)
    _save(user)
    if invite is not None:
        invite.accepted_at, invite.accepted_by = timezone.now(), user
        invite.save(update_fields=["accepted_at", "accepted_by"])
    record(Kind.USER_JOINED, actor=actor, about=user)
    if invite is not None:
        record(Kind.INVITE_ACCEPTED, actor=actor, about=invite)


@transaction.atomic
def update_user(
    *,
    principal: Principal,
    user: User,
    display_name: str | None = None,
    email: str | None = None,
    is_staff: bool | None = None,
    wants_mail: bool | None = None,
    theme: Theme | None = None,
    has_shortcuts: bool | None = None,
) -> None:
    """Change a profile. People change their own, staff changes any.

    Arguments that are None change nothing. Only staff may set `is_staff` or an address; people may
    remove theirs. Locks all active staff if `is_staff` is False, then the person. Errors: 403
    `staff_required`, 409 `invalid_transition` for the last active member of staff, 422.
    """
    rules.check_manages_account(principal, user)
    if is_staff is not None:
        principal.check_staff()
    rules.check_fits_bots(user, email, is_staff, wants_mail)
    if is_staff is False:
        rules.check_staff_remains(user)
    rules.check_email(email or "")
    address = None if email is None else User.objects.normalize_email(email)
    lock(user)
    if address not in {None, "", user.email}:
        principal.check_staff()
    changes = ChangeReport(user, *PUBLIC)
    values = given(display_name=display_name, wants_mail=wants_mail, email=address)
    values |= given(is_staff=is_staff, theme=theme, has_shortcuts=has_shortcuts)
    changed = set_changed(user, values)
    if "display_name" in changed:
        rules.check_display_name(user.display_name)
    if not changed:
        return
    user.is_superuser = user.is_staff
    ended = _end_proofs(user) if "email" in changed else []
    _save(user, [*changed, "is_superuser", *ended])
    record(Kind.USER_UPDATED, actor=principal.user, about=user, data=changes.data(changed))


@transaction.atomic
def confirm_email(*, principal: Principal, proof: str) -> None:
    """Set the caller's e-mail address to the one that `proofs.address_proof` confirms.

    Ends that proof. Locks the person. Errors: 404 for a proof that has ended, 422 for an address of
    another account. Only people who read mail at the address see this error.
    """
    principal.check_permission(Permission.ADMIN)
    user = principal.user
    lock(user)
    changes = ChangeReport(user, *PUBLIC)
    user.email = proven_address(user, proof)
    _save(user, ["email", *_end_proofs(user)])
    record(Kind.USER_UPDATED, actor=user, about=user, data=changes.data(["email"]))


def change_password(*, principal: Principal, user: User, password: str) -> None:
    """Set a new password, one's own or as staff. It ends the person's sessions, but no tokens.

    The caller has already checked the old password or the link. If two requests use the same old
    password or link at once, only one succeeds. The event does not contain the password. Errors:
    403 `staff_required`, 422 for a weak password, 409 `invalid_transition` if password, address or
    `is_active` have changed since `user` was read.
    """
    rules.check_manages_account(principal, user)
    rules.check_no_bot(user, "username")
    rules.check_password(password, user)
    before = (user.credentials_version, user.password)
    hashed = make_password(password)
    with transaction.atomic():
        lock(user)
        if (user.credentials_version, user.password) != before:
            raise Conflict("invalid_transition", "The account has been changed in the meantime.")
        changes = ChangeReport(user, *PUBLIC)
        user.password = hashed
        user.save(update_fields=["password", *_end_proofs(user), *end_all_sessions(user)])
        record(Kind.USER_UPDATED, actor=principal.user, about=user, data=changes.data(["password"]))


@transaction.atomic
def deactivate_user(*, principal: Principal | None, user: User) -> None:
    """Close an account: every request of it is answered with 401, and its streams and sessions end.
    `principal` is None at the command line.

    The person's content stays. Their tokens stay too, and work again after a reactivation. Locks
    all active staff, then the person. Errors: 403 `staff_required`, 409 `invalid_transition` for
    the last active member of staff.
    """
    if principal is not None:
        principal.check_staff()
    actor = None if principal is None else principal.user
    rules.check_staff_remains(user)
    lock(user)
    if not user.is_active:
        return
    user.is_active = False
    user.save(update_fields=["is_active", *end_all_sessions(user), *_end_proofs(user)])
    record(Kind.USER_DEACTIVATED, actor=actor, about=user)


@transaction.atomic
def reactivate_user(*, principal: Principal, user: User) -> None:
    """Open a closed account again. Its tokens work again. 403 `staff_required`."""
    principal.check_staff()
    lock(user)
    if user.is_active:
        return
    changes = ChangeReport(user, *PUBLIC)
    user.is_active = True
    user.save(update_fields=["is_active", *_end_proofs(user)])
    record(Kind.USER_UPDATED, actor=principal.user, about=user, data=changes.data(["is_active"]))


@transaction.atomic
def set_account(
    *,
    principal: Principal,
    user: User,
    is_active: bool | None = None,
    is_staff: bool | None = None,
) -> None:
    """Deactivate an account or open it again, and give or take the rights of staff, as staff.

    Arguments that are None change nothing. Locks and errors as in `update_user`, `deactivate_user`
    and `reactivate_user`: either all of it happens, or nothing.
    """
    principal.check_signed_in()
    principal.check_staff()
    if is_active is False:
        rules.check_staff_remains(user)  # first: all lock staff before a single person
    update_user(principal=principal, user=user, is_staff=is_staff)
    if is_active is not None:
        (reactivate_user if is_active else deactivate_user)(principal=principal, user=user)


@transaction.atomic
def delete_user(*, principal: Principal, user: User, confirm: str) -> Deletion:
    """Delete an account with its repositories, one's own or as staff; `confirm` is its username.

    It can do nothing from now on: sessions, streams and links end, tokens are revoked, and its open
    invites are deleted. Staff can restore it until `purge_at`. Locks the teams that the person
    owns, all active staff, the person, then the repositories. Errors: 403, 404, 409
    `invalid_transition` for the last active member of staff, 409 `last_owner`, 422.
    """
    rules.check_manages_account(principal, user)
    actor = principal.user
    check_confirmed(user.username, confirm)
    rules.check_owns_no_team_alone(user)
    rules.check_staff_remains(user)
    lock(user)
    deletion = Deletion.begin(user.path, actor)
    user.repos.all().hide(deletion)
    now = timezone.now()
    user.tokens.filter(revoked_at=None).update(revoked_at=now)
    user.invites.filter(accepted_at=None, deleted_at=None).update(deleted_at=now)
    user.deletion, user.is_active = deletion, False
    ended = [*end_all_sessions(user), *_end_proofs(user)]
    user.save(update_fields=["deletion", "is_active", *ended])
    about, data = Deleted(user, user.event_keys()), deletion.event_data()
    record(Kind.USER_DELETED, actor=actor, about=about, data=data)
    return deletion


@transaction.atomic
def restore(*, principal: Principal | None, deletion: Deletion) -> None:
    """Undo a deletion until its purge begins. `principal` is None at the command line. Locks the
    owner or the team, then the deletion.

    Errors: 403 `staff_required`, 404 if it was restored or purged meanwhile, 409
    `invalid_transition` while it is purged, while the owner is deleted too, or if the owner of a
    fork has another fork of the upstream now.
    """
    if principal is not None:
        principal.check_staff()
    subject, kind = deletion.subject()
    owner = getattr(subject, "owner", subject)
    lock(owner, even_deleted=True)
    lock(deletion)
    if deletion.is_purging:
        raise Conflict("invalid_transition", f"{deletion} is being removed for good.")
    if owner is not subject and owner.deletion_id is not None:
        raise Conflict("invalid_transition", f"Restore {owner.path} first.")
    try:
        with transaction.atomic():
            deletion.repos.all().show()
    except IntegrityError:
        text = f"{deletion} is a fork, and its owner has another fork of the upstream now."
        raise Conflict("invalid_transition", text) from None
    deletion.teams.update(deletion=None)
    deletion.users.update(deletion=None, is_active=True)
    deletion.delete()
    subject.refresh_from_db()
    record(kind, actor=None if principal is None else principal.user, about=subject)


def _end_proofs(user: User) -> list[str]:
    """End all signed links that were mailed to the person; return the fields that the caller saves.

    The caller has locked the person.
    """
    user.credentials_version += 1
    return ["credentials_version"]


@transaction.atomic
def end_session(*, principal: Principal, session: BrowserSession) -> None:
    """Sign a browser out, one's own or as staff. Its live streams close.

    If it has ended already, nothing changes and no event is recorded. Locks the person.
    Errors: 401, 403 `staff_required`.
    """
    user = session.user
    principal.check_self_or_staff(user.pk, "sessions")
    principal.check_permission(Permission.ADMIN)
    lock(user)
    changes = ChangeReport(user, *PUBLIC)
    ended, _ = Session.objects.filter(pk=session.session_id).delete()
    if ended:
        wake.notify_on_commit(user.pk)
        record(Kind.USER_UPDATED, actor=principal.user, about=user, data=changes.data(["sessions"]))


@transaction.atomic
def end_sessions(*, principal: Principal, user: User) -> None:
    """Sign a person out of every browser, oneself or as staff. Their live streams on pages close.

    Tokens stay. Locks the person. Errors: 401, 403 `staff_required`.
    """
    principal.check_self_or_staff(user.pk, "sessions")
    principal.check_permission(Permission.ADMIN)
    lock(user)
    changes = ChangeReport(user, *PUBLIC)
    user.save(update_fields=end_all_sessions(user))
    record(Kind.USER_UPDATED, actor=principal.user, about=user, data=changes.data(["sessions"]))


def _new(username: str, email: str, password: str | None) -> User:
    """An account that is not stored yet. Call it outside a transaction: hashing takes long."""
    rules.check_username(username)
    rules.check_email(email)
    user = User(username=username, email=User.objects.normalize_email(email))
    if password is not None:
        rules.check_password(password, user)
    user.password = make_password(password)
    return user


def _save(user: User, fields: list[str] | None = None) -> None:
    """Store a person; 409 `slug_taken`, 422 for an address of another account."""
    try:
        with transaction.atomic():
            user.save(update_fields=fields)
    except IntegrityError:
        others = User.objects.exclude(pk=user.pk)
        if others.filter(username_key=user.username_key).exists():
            raise Conflict("slug_taken", f'The username "{user}" is taken.') from None
        detail = "email: Another account has this e-mail address."
        raise Invalid("validation_failed", detail) from None


@final_transaction
def create_token(
    *,
    principal: Principal | None,
    owner: User,
    name: str,
    expires_at: dt.datetime | None = None,
    permission: str = Permission.ADMIN,
    repo_paths: Sequence[str] | None = None,
) -> tuple[ApiToken, str]:
    """Create a token; return it with its text, which is not stored.

    It is limited to the repositories at `repo_paths`, or not at all for None. In this and the next
    actions `principal` is None at the command line; then the event's actor is the owner. A token
    that is created with another token expires no later than that one. Errors: 403 `token_scope`;
    403 as in `rules.check_manages_tokens`; 422 for a deactivated account, and for a path of no
    repository that the owner may read.
    """
    actor = _actor(principal, owner)
    lock(owner)  # an action that revokes all tokens revokes this one, or it is not created
    if not owner.is_active:
        raise Invalid("validation_failed", f"username: {owner} has been deactivated.")
    repos = [] if repo_paths is None else _readable_repos(owner, repo_paths)
    text, ends = new_token(), [expires_at, principal and principal.expires_at]
    token = ApiToken.objects.create(
        user=owner,
        name=name,
        digest=digest(text),
        token_prefix=text[:PREFIX_LENGTH],
        permission=permission,
        is_limited=repo_paths is not None,
        expires_at=min((end for end in ends if end), default=None),
    )
    token.repos.add(*repos)
    audit = {"permission": permission, "expires_at": token.expires_at, "repo_paths": repo_paths}
    record(Kind.TOKEN_CREATED, actor=actor, about=token, data={"name": name}, audit=audit)
    return token, text


def _readable_repos(owner: User, paths: Sequence[str]) -> list[Any]:
    """The repositories at these paths; 422 for the first path of none that this person may read."""
    repos: Any = owner.repos.model.objects
    by_path = repos.visible_to(Principal(owner)).by_path(path.lower() for path in paths)
    for path in paths:
        if path.lower() not in by_path:
            text = f"repo_paths: There is no repository {quoted(path)} that {owner} may read."
            raise Invalid("validation_failed", text)
    return [*by_path.values()]


@transaction.atomic
def rotate_token(
    *, principal: Principal | None, token: ApiToken, keep_old: dt.timedelta = dt.timedelta()
) -> str:
    """Give a token a new text, and return it. The old text is valid for `keep_old` more, at most 72
    hours; an older one ends at once. Scope, name and expiry stay.

    Locks the token. Errors: 403 as in `create_token`; 403 `role_required` if the token of the
    caller ends sooner than this one, whose text would outlive it; 409 `invalid_transition` if the
    token is revoked or expired.
    """
    actor = _actor(principal, token.user)
    lock(token)
    check_outlived(principal, token.expires_at)
    if not token.is_usable:
        raise Conflict("invalid_transition", f"The token {token.name} has ended. Create another.")
    text, now = new_token(), timezone.now()
    token.former_digest = token.digest if keep_old else None
    token.former_until = now + keep_old if keep_old else None
    token.digest, token.token_prefix = digest(text), text[:PREFIX_LENGTH]
    token.warned_at = None  # the new text is in use elsewhere, and expires at the same time
    texts = ("digest", "token_prefix", "former_digest", "former_until")
    token.save(update_fields=[*texts, "warned_at"])
    record(Kind.TOKEN_ROTATED, actor=actor, about=token, data={"name": token.name})
    return text


@transaction.atomic
def revoke_token(*, principal: Principal | None, token: ApiToken) -> None:
    """Revoke a token for good. Revoking it again changes nothing and records no event."""
    actor = _actor(principal, token.user)
    lock(token)
    if token.revoked_at is not None:
        return
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record(Kind.TOKEN_REVOKED, actor=actor, about=token, data={"name": token.name})


@transaction.atomic
def delete_token(*, principal: Principal | None, token: ApiToken) -> None:
    """Delete a token. Requests that still send it are answered with 401."""
    actor = _actor(principal, token.user)
    lock(token)
    ApiToken.objects.filter(pk=token.pk).delete()
    record(Kind.TOKEN_DELETED, actor=actor, about=token, data={"name": token.name})


@dataclass(frozen=True)
class ExpiringToken:
    """The subject of the event that tells one person about a token that expires soon. Its page is
    the one where this person can rotate the token.
    """

    token: ApiToken
    person: User

    def event_keys(self) -> Keys:
        return Keys(private_to=self.person.pk)

    def event_target(self) -> Target:
        page, user = reverse("tokens"), self.token.user
        if user.is_bot:
            team = user.memberships.values_list("team__slug", flat=True).get()
            page = reverse("bot", args=[team, user.username])
        return replace(self.token.event_target(), web=page)

    def event_title(self) -> None:
        return None


@transaction.atomic
def warn_of_expiry(*, pk: int) -> bool:
    """Ping the people of a token that expires soon. False if it needs none any more. Locks it."""
    rows = ApiToken.objects.select_for_update(of=("self",), no_key=True).select_related("user")
    token = rows.to_warn().filter(pk=pk).first()
    if token is None:
        return False
    token.warned_at = timezone.now()
    token.save(update_fields=["warned_at"])
    data = {"name": token.name, "expires_at": token.expires_at and token.expires_at.isoformat()}
    for person in rules.people_of_token(token):
        about, pings = ExpiringToken(token, person), [(person, PingKind.TOKEN_EXPIRING)]
        record(Kind.TOKEN_EXPIRING, actor=None, about=about, data=data, pings=pings)
    return True


def _actor(principal: Principal | None, owner: User) -> User:
    """The person who acts on a token of `owner`; 401, 403 as in `rules.check_manages_tokens`."""
    if principal is None:
        return owner
    principal.check_permission(Permission.ADMIN)
    rules.check_manages_tokens(principal, owner)
    return principal.user


@final_transaction
def create_invite(*, principal: Principal, expires_at: dt.datetime, email: str = "") -> Invite:
    """Create an invite. Without an `email`, anyone who has the link may use it.

    Locks the person, so that two requests at once cannot exceed the limit. Errors: 403
    `staff_required` if only staff may invite, 403 `account_too_young`, 429
    `signup_invite_limit_reached`, 422.
    """
    principal.check_permission(Permission.ADMIN)
    lock(principal.user)
    rules.check_may_invite(principal, SiteSettings.load())
    principal.check_person()
    rules.check_email(email)
    invite = Invite.objects.create(created_by=principal.user, expires_at=expires_at, email=email)
    record(Kind.INVITE_CREATED, actor=principal.user, about=invite)
    return invite


@transaction.atomic
def update_invite(
    *,
    principal: Principal,
    invite: Invite,
    email: str | None = None,
    expires_at: dt.datetime | None = None,
) -> None:
    """Change the address or the expiry of an invite. Arguments that are None change nothing.

    With an empty address, anyone who has the link may use it. An expiry in the future makes an
    expired invite pending again. Locks the invite. Errors: 403 `staff_required`, 404 for a deleted
    invite, 409 `invite_already_accepted`, 422.
    """
    _lock_invite(principal, invite)
    if invite.accepted_at is not None:
        raise rules.already_accepted()
    rules.check_email(email or "")
    report = ChangeReport(invite, "expires_at")
    changed = set_changed(invite, given(email=email, expires_at=expires_at))
    if not changed:
        return
    invite.save()
    data, audit = {"changed": changed}, report.data(changed)
    record(Kind.INVITE_UPDATED, actor=principal.user, about=invite, data=data, audit=audit)


@transaction.atomic
def expire_invite(*, principal: Principal, invite: Invite) -> None:
    """Let an invite expire now, unless it has expired. Raises the errors of `update_invite`."""
    _lock_invite(principal, invite)
    if invite.status is not InviteStatus.EXPIRED:
        update_invite(principal=principal, invite=invite, expires_at=timezone.now())


@transaction.atomic
def delete_invite(*, principal: Principal, invite: Invite) -> None:
    """Mark an invite of any status as deleted. Its row stays. Locks it. Errors: 403, 404."""
    _lock_invite(principal, invite)
    invite.deleted_at = timezone.now()
    invite.save(update_fields=["deleted_at"])
    record(Kind.INVITE_DELETED, actor=principal.user, about=invite)


def _lock_invite(principal: Principal, invite: Invite) -> None:
    """Lock an invite for its creator or for staff; else 401, 403, 404."""
    principal.check_permission(Permission.ADMIN)
    principal.check_self_or_staff(invite.created_by_id, "invites")
    lock(invite)
    if invite.deleted_at is not None:
        raise NotFound("not_found", "This invite has been deleted.")
