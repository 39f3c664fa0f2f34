"""Actions on the identities of people at the OpenID provider, and on staff by its groups."""

from __future__ import annotations

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts import rules
from apps.accounts.identities import NAME_MAX, Identity
from apps.accounts.models import DISPLAY_NAME_MAX, EMAIL_MAX, Invite, User
from apps.accounts.openid.tokens import Claims
from apps.accounts.principal import Principal
from apps.accounts.rules import check_may_join, check_staff_remains, display_name_problem
from apps.accounts.second_factors.notices import Notice, notify
from apps.core.access import Permission
from apps.core.availability import USERNAMES
from apps.core.changes import ChangeReport
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.events.kinds import Kind
from apps.events.record import record
from apps.site.models import SiteSettings

CHANGED = {"changed": ["identities"], "before": {}, "after": {}}
"""The data of the event `user-updated`."""
UNNAMED = "person"
"""The beginning of usernames for people whose provider names none that is valid here."""


@transaction.atomic
def join(*, principal: Principal, claims: Claims, invite: Invite | None) -> User:
    """Create an account for a subject who has none, if the settings of the site allow it, or always
    with `OIDC_SIGNUPS=all`.

    The account has no password, and the verified address of the provider unless another account has
    it: an address never leads to an existing account. The username is the one at the provider, or
    the nearest that is valid and free. Locks the invite. Errors: those of `rules.check_may_join`;
    409 `invalid_transition` if the subject or the username was taken meanwhile.
    """
    if invite is not None:
        lock(invite)
    if invite is not None or not settings.OIDC_SIGNUPS_ALL:
        check_may_join(SiteSettings.load(), invite, claims.email)
    user = _new_user(claims)
    try:
        with transaction.atomic():
            user.save()
            Identity.objects.create(
                user=user, issuer=claims.issuer, subject=claims.subject, name=_name(claims)
            )
    except IntegrityError:
        raise Conflict("invalid_transition", "Somebody was quicker. Sign in again.") from None
    if invite is not None:
        invite.accepted_at, invite.accepted_by = timezone.now(), user
        invite.save(update_fields=["accepted_at", "accepted_by"])
    actor = principal.person or user
    record(Kind.USER_JOINED, actor=actor, about=user)
    if invite is not None:
        record(Kind.INVITE_ACCEPTED, actor=actor, about=invite)
    return user


def _new_user(claims: Claims) -> User:
    """The row of a new account, not saved."""
    names = USERNAMES.candidates(USERNAMES.clean(claims.username) or UNNAMED)
    names = names or USERNAMES.candidates(UNNAMED)
    taken = User.objects.taken([name.lower() for name in names])
    free = [name for name in names if name.lower() not in taken]
    if not free:
        raise Conflict("slug_taken", "There is no free username like yours at the provider.")
    email = User.objects.normalize_email(claims.email)
    if not _is_address(email) or User.objects.filter(email_key=email.lower()).exists():
        email = ""
    display_name = claims.name.strip()
    fits = len(display_name) <= DISPLAY_NAME_MAX and display_name_problem(display_name) is None
    user = User(username=free[0], email=email, display_name=display_name if fits else "")
    user.set_unusable_password()
    return user


def _is_address(email: str) -> bool:
    try:
        rules.check_email(email)
    except Invalid:
        return False
    return len(email) <= EMAIL_MAX


def _name(claims: Claims) -> str:
    """The name to show for an identity. PostgreSQL stores no NUL."""
    return claims.username.replace("\0", "")[:NAME_MAX]


@transaction.atomic
def link_identity(*, principal: Principal, claims: Claims) -> None:
    """Let a subject of the provider sign in to the caller's account. The caller has confirmed that
    they are the person of the account.

    Linking it again changes nothing. Locks the person. Errors: 401, 403 `token_scope`, 403
    `person_required`, 409 `invalid_transition` if the subject has another account, or the account
    another subject.
    """
    principal.check_permission(Permission.ADMIN)
    principal.check_person()
    user = principal.user
    lock(user)
    own = user.identities.filter(issuer=claims.issuer).first()
    if own is not None and own.subject == claims.subject:
        return
    if own is not None:
        text = "Your account is linked to somebody else at the provider. Unlink it first."
        raise Conflict("invalid_transition", text)
    try:
        with transaction.atomic():
            Identity.objects.create(
                user=user, issuer=claims.issuer, subject=claims.subject, name=_name(claims)
            )
    except IntegrityError:
        text = "Your account at the provider signs in to another account here."
        raise Conflict("invalid_transition", text) from None
    notify(user, Notice.IDENTITY_LINKED)
    record(Kind.USER_UPDATED, actor=user, about=user, data=CHANGED)


@transaction.atomic
def unlink_identity(*, principal: Principal, identity: Identity) -> None:
    """End that a subject signs in to the caller's account, which needs a password of its own. The
    caller has confirmed that they are the person of the account.

    Rights of staff that a group gave end too; the caller takes the memberships. Nothing changes if
    it is gone already. Locks all active staff if it gives these rights, then the person. Errors:
    401, 403 `token_scope`, 409 `invalid_transition` without a password, and for the last active
    member of staff.
    """
    principal.check_permission(Permission.ADMIN)
    user = principal.user
    if not set_staff_by_group(user=user, issuer=identity.issuer, is_staff=False):
        raise Conflict("invalid_transition", "You are the last member of staff.")
    lock(user)
    if not user.has_usable_password():
        text = "Your account has no password: nothing else would sign you in."
        raise Conflict("invalid_transition", text)
    removed, _ = Identity.objects.filter(pk=identity.pk, user=user).delete()
    if removed:
        notify(user, Notice.IDENTITY_UNLINKED)
        record(Kind.USER_UPDATED, actor=user, about=user, data=CHANGED)


@transaction.atomic
def note_use(*, principal: Principal, claims: Claims) -> None:
    """Store when and under which name the subject has signed in to the caller's account. 401."""
    identities = principal.user.identities.filter(issuer=claims.issuer, subject=claims.subject)
    identities.update(last_used_at=timezone.now(), name=_name(claims))


@transaction.atomic
def set_staff_by_group(*, user: User, issuer: str, is_staff: bool) -> bool:
    """Make a person staff because of a group at the provider, or take it again.

    Only rights that a group gave are taken. False if they are not, because the person is the last
    active member of staff. Locks all active staff, then the person.
    """
    identity = user.identities.filter(issuer=issuer).first()
    if identity is None or (not is_staff and not identity.gives_staff):
        return True
    if not is_staff:
        try:
            check_staff_remains(user)
        except Conflict:
            return False
    lock(user)
    if not user.is_active or (is_staff and user.is_staff):
        return True
    identity.gives_staff = is_staff
    identity.save(update_fields=["gives_staff"])
    if user.is_staff == is_staff:
        return True
    changes = ChangeReport(user, "is_staff")
    user.is_staff = user.is_superuser = is_staff
    user.save(update_fields=["is_staff", "is_superuser"])
    record(Kind.USER_UPDATED, actor=None, about=user, data=changes.data(["is_staff"]))
    return True
