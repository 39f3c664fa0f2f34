"""What changes people, their API tokens, and the invites by which they come.

Each function is one transaction, one change and its event.
"""

from __future__ import annotations

import datetime as dt

from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts import rules
from apps.accounts.models import (
    SHOWN,
    ApiToken,
    Invite,
    InviteStatus,
    Theme,
    User,
    digest,
    new_token,
)
from apps.accounts.principal import Principal
from apps.accounts.proofs import proven_address
from apps.core.changes import ChangeReport, given, set_changed
from apps.core.errors import Conflict, Invalid, NotFound
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site.models import SiteSettings

PUBLIC = ("display_name", "is_active", "is_staff")
"""What an event may tell of a person: never an address."""


def create_user(
    *,
    by: Principal | None,
    username: str,
    email: str = "",
    password: str | None = None,
    is_staff: bool = False,
) -> User:
    """Add a person, as staff or at the command line (`by` None: the event names the person).

    Errors: 403 `staff_required`, 422 for a name, an address or a password that will not do, 409
    `slug_taken`.
    """
    if by is not None:
        by.check_staff()
    user = _new(username, email, password)
    user.is_staff = user.is_superuser = is_staff
    with transaction.atomic():
        _save(user)
        record(Kind.USER_JOINED, actor=by.user if by else user, about=user)
    return user


def sign_up(
    *, by: Principal, username: str, email: str, password: str, invite: Invite | None
) -> User:
    """Let somebody make an account for themself, as the site's settings allow.

    `by` is whoever asks, mostly nobody; `invite` None is without one. Two events where an invite
    is used: `user-joined` and `invite-accepted`. The address is theirs from `confirm_email` on:
    whether somebody else has it is not told before, and no mail is needed to sign up.
    Locks the invite: of two who accept it at once, one joins. Errors: those of
    `rules.check_may_join`; 422 for a name, address or password that will not do; 409 `slug_taken`.
    """
    if invite is not None:
        invite.refresh_from_db()
    rules.check_may_join(SiteSettings.load(), invite, email)
    if not email:
        raise Invalid("validation_failed", "email: This field is required.")
    user = _new(username, email, password)
    user.email = ""
    _join(by.person or user, user, invite, email)
    return user


@transaction.atomic
def _join(actor: User, user: User, invite: Invite | None, email: str) -> None:
    """Ask again what was asked before the password was hashed, now under the lock."""
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
    by: Principal,
    user: User,
    display_name: str | None = None,
    email: str | None = None,
    is_staff: bool | None = None,
    wants_mail: bool | None = None,
    theme: Theme | None = None,
    has_shortcuts: bool | None = None,
) -> None:
    """Change a profile, one's own or as staff anybody's; only staff says who is staff.

    None leaves a property as it is; another address is given by staff, or by `confirm_email`. Locks
    the active staff where one is taken away, then the person. Errors: 403 `staff_required`, 409
    `invalid_transition` for the last active of the staff, 422 for what will not do or is in use.
    """
    by.check_may_change()
    by.check_self_or_staff(user.pk, "account")
    if is_staff is not None:
        by.check_staff()
    if is_staff is False:
        _check_somebody_stays(user)
    rules.check_email(email or "")
    address = None if email is None else User.objects.normalize_email(email)
    lock(user)
    if address not in {None, "", user.email}:
        by.check_staff()
    report = ChangeReport(user, *PUBLIC)
    wanted = given(display_name=display_name, wants_mail=wants_mail, email=address)
    wanted |= given(is_staff=is_staff, theme=theme, has_shortcuts=has_shortcuts)
    changed = set_changed(user, wanted)
    if "display_name" in changed:
        rules.check_display_name(user.display_name)
    if not changed:
        return
    user.is_superuser = user.is_staff
    ended = _end_proofs(user) if "email" in changed else []
    _save(user, [*changed, "is_superuser", *ended])
    record(Kind.USER_UPDATED, actor=by.user, about=user, data=report.data(changed))


@transaction.atomic
def confirm_email(*, by: Principal, proof: str) -> None:
    """Give the caller the address to which `proofs.address_proof` was sent; ends that proof.

    Locks the person. Errors: 404 for a proof that has ended, 422 for an address that is in use,
    which is told to nobody but who reads its mail.
    """
    by.check_may_change()
    user = by.user
    lock(user)
    report = ChangeReport(user, *PUBLIC)
    user.email = proven_address(user, proof)
    _save(user, ["email", *_end_proofs(user)])
    record(Kind.USER_UPDATED, actor=user, about=user, data=report.data(["email"]))


def change_password(*, by: Principal, user: User, password: str) -> None:
    """Give a new password, oneself or as staff; it ends the person's sessions, but no token.

    Whoever asks for the old one, or a link, does so before. Errors: 403 `staff_required`, 422 for
    a password that is too weak, 409 `invalid_transition` where password, address or `is_active`
    have changed since `user` was read: of two who show the same old one, or use the same link, one
    chooses. The event says that it changed, and nothing about it.
    """
    by.check_may_change()
    by.check_self_or_staff(user.pk, "account")
    rules.check_password(password, user)
    known, hashed = (user.credentials_version, user.password), make_password(password)
    with transaction.atomic():
        lock(user)
        if (user.credentials_version, user.password) != known:
            raise Conflict("invalid_transition", "The account has been changed in the meantime.")
        report = ChangeReport(user, *PUBLIC)
        user.password = hashed
        user.save(update_fields=["password", *_end_proofs(user)])
        record(Kind.USER_UPDATED, actor=by.user, about=user, data=report.data(["password"]))


@transaction.atomic
def deactivate_user(*, by: Principal, user: User) -> None:
    """Close an account: from here on every call is 401, and open streams and all sessions end.

    What the person wrote stays, and so do their tokens, which work again after a reactivation.
    Locks the active staff, then the person. Errors: 403 `staff_required`, 409
    `invalid_transition` for the last active member of the staff.
    """
    by.check_staff()
    actor = by.user
    _check_somebody_stays(user)
    lock(user)
    if not user.is_active:
        return
    user.is_active = False
    user.deactivations += 1
    user.save(update_fields=["is_active", "deactivations", *_end_proofs(user)])
    record(Kind.USER_DEACTIVATED, actor=actor, about=user)


@transaction.atomic
def reactivate_user(*, by: Principal, user: User) -> None:
    """Open a closed account again, with the tokens that it had. 403 `staff_required`."""
    by.check_staff()
    lock(user)
    if user.is_active:
        return
    report = ChangeReport(user, *PUBLIC)
    user.is_active = True
    user.save(update_fields=["is_active", *_end_proofs(user)])
    record(Kind.USER_UPDATED, actor=by.user, about=user, data=report.data(["is_active"]))


def _end_proofs(user: User) -> list[str]:
    """End what was sent to the person by mail, together with the change that is saved; returns
    the field to save. The caller has locked the person.
    """
    user.credentials_version += 1
    return ["credentials_version"]


def _check_somebody_stays(user: User) -> None:
    """409 for the last of the active staff. Locks them in one order, so that two cannot both go."""
    staff = User.objects.select_for_update(no_key=True).filter(is_staff=True, is_active=True)
    if [one.pk for one in staff.order_by("pk")] == [user.pk]:
        raise Conflict(
            "invalid_transition",
            f"{user} is the last active member of staff. Make somebody else staff first.",
        )


def _new(username: str, email: str, password: str | None) -> User:
    """A person who is not stored yet. Hashes the password, so call it outside a transaction."""
    rules.check_username(username)
    rules.check_email(email)
    user = User(username=username, email=User.objects.normalize_email(email))
    if password is not None:
        rules.check_password(password, user)
    user.password = make_password(password)
    return user


def _save(user: User, fields: list[str] | None = None) -> None:
    """Store a person; 409 `slug_taken`, 422 for an address that is in use."""
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
    *, by: Principal | None, owner: User, name: str, expires_at: dt.datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token and return it with its text, which is not kept anywhere.

    `by` None is the operator at the command line, here and below: the event names the owner. A
    token that is made with a token ends with it at the latest: it would outlive its end otherwise.
    Errors: 403 `staff_required` for somebody else's token unless staff asks; 422 for an account
    that has been deactivated.
    """
    actor = _actor(by, owner)
    if not owner.is_active:
        raise Invalid("validation_failed", f"username: {owner} has been deactivated.")
    text, ends = new_token(), [expires_at, by and by.expires_at]
    token = ApiToken.objects.create(
        user=owner,
        name=name,
        digest=digest(text),
        token_prefix=text[:SHOWN],
        expires_at=min((end for end in ends if end), default=None),
    )
    record(Kind.TOKEN_CREATED, actor=actor, about=token, data={"name": name})
    return token, text


@transaction.atomic
def revoke_token(*, by: Principal | None, token: ApiToken) -> None:
    """End a token for good; doing it again changes nothing, and records nothing."""
    actor = _actor(by, token.user)
    lock(token)
    if token.revoked_at is not None:
        return
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record(Kind.TOKEN_REVOKED, actor=actor, about=token, data={"name": token.name})


@transaction.atomic
def delete_token(*, by: Principal | None, token: ApiToken) -> None:
    """Remove a token; whoever still sends it gets 401."""
    actor = _actor(by, token.user)
    lock(token)
    ApiToken.objects.filter(pk=token.pk).delete()
    record(Kind.TOKEN_DELETED, actor=actor, about=token, data={"name": token.name})


def _actor(by: Principal | None, owner: User) -> User:
    """Who acts on a token: its owner, or staff; 401, 403."""
    if by is None:
        return owner
    by.check_may_change()
    by.check_self_or_staff(owner.pk, "tokens")
    return by.user


@final_transaction
def create_invite(*, by: Principal, expires_at: dt.datetime, email: str = "") -> Invite:
    """Invite somebody: whoever has the link, or only a person who signs up with `email`.

    Locks the person's row, so that two at once cannot pass the limit together. Errors: 403
    `staff_required` where only staff invites, 403 `account_too_young`, 429
    `signup_invite_limit_reached`, 422.
    """
    by.check_may_change()
    lock(by.user)
    rules.check_may_invite(by, SiteSettings.load())
    rules.check_email(email)
    invite = Invite.objects.create(created_by=by.user, expires_at=expires_at, email=email)
    record(Kind.INVITE_CREATED, actor=by.user, about=invite)
    return invite


@transaction.atomic
def update_invite(
    *,
    by: Principal,
    invite: Invite,
    email: str | None = None,
    expires_at: dt.datetime | None = None,
) -> None:
    """Change whom it is for (empty: whoever has the link) and when it ends; None leaves as is.

    An end in the future makes an expired invite pending again. Locks it. Errors: 403
    `staff_required`, 404 when deleted, 409 `invite_already_accepted`, 422.
    """
    _lock_invite(by, invite)
    if invite.accepted_at is not None:
        raise rules.already_accepted()
    rules.check_email(email or "")
    changed = set_changed(invite, given(email=email, expires_at=expires_at))
    if not changed:
        return
    invite.save()
    record(Kind.INVITE_UPDATED, actor=by.user, about=invite, data={"changed": changed})


@transaction.atomic
def expire_invite(*, by: Principal, invite: Invite) -> None:
    """End an invite now; one that has ended already stays as it is. As `update_invite`."""
    _lock_invite(by, invite)
    if invite.status is not InviteStatus.EXPIRED:
        update_invite(by=by, invite=invite, expires_at=timezone.now())


@transaction.atomic
def delete_invite(*, by: Principal, invite: Invite) -> None:
    """Delete an invite, whatever its state; its row stays. 403, 404. Locks it."""
    _lock_invite(by, invite)
    invite.deleted_at = timezone.now()
    invite.save(update_fields=["deleted_at"])
    record(Kind.INVITE_DELETED, actor=by.user, about=invite)


def _lock_invite(by: Principal, invite: Invite) -> None:
    """Lock an invite for its creator or staff; 401, 403, 404."""
    by.check_may_change()
    by.check_self_or_staff(invite.created_by_id, "invites")
    lock(invite)
    if invite.deleted_at is not None:
        raise NotFound("not_found", "This invite has been deleted.")
