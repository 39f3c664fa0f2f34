"""People, API tokens, and invites to sign up."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import uuid
import zlib
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth import models as auth
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import OperationalError, models
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.functional import cached_property

from apps.accounts import factors as factors  # Django finds their models here
from apps.accounts import identities as identities
from apps.core.access import Permission, Principal
from apps.core.errors import is_storage_full
from apps.core.search import begins, uuid_begins
from apps.core.slugs import USERNAME_MAX, username_problem
from apps.events.kinds import Kind
from apps.events.record import Keys, Target
from apps.site.models import SiteEvents

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN_PREFIX = "ght_"  # noqa: S105 - the public beginning of every token
PREFIX_LENGTH = len(TOKEN_PREFIX) + 8
"""Characters of a token that are stored and shown."""
USED_EVERY = dt.timedelta(minutes=1)
"""Least time between two updates of `last_used_at`."""
SEEN_EVERY = dt.timedelta(hours=1)
"""Least time between two updates of `last_seen_at`, of a person or a session."""
WARNED_BEFORE = dt.timedelta(days=7)
"""Time before the expiry of a token at which its owner is pinged."""
KEPT_FOR = dt.timedelta(days=14)
"""How long a deleted repository, team or account can be restored."""
DISPLAY_NAME_MAX = 100
EMAIL_MAX = 254
KEY_COLUMNS = {"username": "username_key", "display_name": "display_name_key", "email": "email_key"}
"""Column -> the column with its value in lower case."""


def validate_username(name: str) -> None:
    """The rule for usernames as a Django validator. `createsuperuser` uses it too."""
    problem = username_problem(name)
    if problem is not None:
        raise ValidationError(problem)


class Deletion(models.Model):
    """A deleted repository, team or account, with the repositories in its space.

    Staff can restore it until `purge_at`. Then the worker removes it, and this row last.
    """

    path = models.CharField(max_length=255)
    """`teams/acme/api`, `teams/acme` or `users/alice`."""
    deleted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    deleted_at = models.DateTimeField()
    purge_at = models.DateTimeField(null=True, db_index=True)
    """Null once it is removed: the row of an account stays, without its data, as the author of
    texts.
    """
    is_purging = models.BooleanField(default=False)
    """Whether the removal has begun, after which nothing can be restored."""

    def __str__(self) -> str:
        return self.path

    @classmethod
    def begin(cls, path: str, deleted_by: User) -> Deletion:
        """Store the deletion of the resource at this path, by this person, now."""
        now = timezone.now()
        return cls.objects.create(
            path=path, deleted_by=deleted_by, deleted_at=now, purge_at=now + KEPT_FOR
        )

    def subject(self) -> tuple[Any, Kind]:
        """The deleted row, and the kind of event of its restoration; 404 if it was restored."""
        if team := self.teams.first():  # its bots have the same deletion
            return team, Kind.TEAM_RESTORED
        if user := self.users.first():
            return user, Kind.USER_RESTORED
        return get_object_or_404(self.repos), Kind.REPO_RESTORED

    def event_data(self) -> dict[str, Any]:
        """The data of the event about it."""
        return {"path": self.path, "purge_at": self.purge_at and self.purge_at.isoformat()}


NOT_GONE = Q(deletion=None)
"""Repositories, teams and accounts that are not deleted."""
GONE = Q(deletion__isnull=False)


def deletion_field(related_name: str) -> Any:
    """The column of a repository, a team or an account. It has a partial index, as most have none.

    Rows with a deletion exist only for staff in the admin.
    """
    return models.ForeignKey(
        Deletion, null=True, on_delete=models.PROTECT, related_name=related_name, db_index=False
    )


class Theme(StrEnum):
    """The colours of the pages: the system's setting, or always light or dark."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


SEEN_AT = Coalesce("last_seen_at", "last_login")
"""The column `last_seen_at`; the last sign-in for people not seen since it was added."""


class UserQuerySet(models.QuerySet["User"]):
    def visible_to(self, principal: Principal) -> UserQuerySet:
        """Signed-in people see everybody, deactivated accounts included, but not deleted ones."""
        return self.filter(NOT_GONE) if principal.is_signed_in else self.none()

    def taken(self, names: list[str]) -> set[str]:
        """The usernames among these, in lower case, that are taken."""
        return set(self.filter(username_key__in=names).values_list("username_key", flat=True))

    def search(self, text: str) -> UserQuerySet:
        """People whose username or display name contains this text, ignoring case."""
        key = text.lower()
        return self.filter(Q(username_key__contains=key) | Q(display_name_key__contains=key))

    def seen_since(self, time: dt.datetime) -> UserQuerySet:
        return self.annotate(seen=SEEN_AT).filter(seen__gte=time)

    def not_seen_since(self, time: dt.datetime) -> UserQuerySet:
        """People who were not seen after this time. If they never were, their account is older."""
        return self.annotate(seen=Coalesce(SEEN_AT, "created_at")).filter(seen__lt=time)

    def beginning(self, name: str, text: str) -> UserQuerySet:
        """People whose column `name` begins with this text, ignoring case, sorted by it.

        `name` is a key of `KEY_COLUMNS`.
        """
        key = KEY_COLUMNS[name]
        return self.filter(begins(key, text.lower())).order_by(key, "pk")


class UserManager(auth.UserManager["User"]):
    """Finds usernames ignoring case. `createsuperuser` needs Django's `UserManager`."""

    use_in_migrations = False

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(username_key=(username or "").lower())


class User(SiteEvents, auth.AbstractBaseUser, auth.PermissionsMixin):
    """An account. The row of a deleted one loses its data and stays, so that content keeps an
    author (docs/deletion.md).
    """

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    username = models.CharField(
        max_length=USERNAME_MAX, unique=True, validators=[validate_username]
    )
    username_key = models.CharField(max_length=USERNAME_MAX, unique=True, editable=False)
    """The username in lower case, for queries and uniqueness."""
    display_name = models.CharField(max_length=DISPLAY_NAME_MAX, blank=True)
    display_name_key = models.CharField(
        max_length=2 * DISPLAY_NAME_MAX, blank=True, default="", editable=False, db_index=True
    )
    """The display name in lower case, which may have more characters."""
    email = models.EmailField(max_length=EMAIL_MAX, blank=True)
    email_key = models.CharField(  # noqa: DJ001 - null is "no address": many have none
        max_length=2 * EMAIL_MAX, null=True, editable=False
    )
    """The address in lower case. No two accounts have the same."""
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    is_bot = models.BooleanField(default=False, db_default=False, editable=False)
    """Whether it is the service account of a team: its only membership (docs/bots.md)."""
    has_second_factor = models.BooleanField(default=False, db_default=False, editable=False)
    """Whether it has an authenticator app. Then all of its sessions have used a second factor."""
    credentials_version = models.PositiveBigIntegerField(default=0, editable=False)
    """Increases with each change of address, password or `is_active`. This ends all signed links
    that were mailed before; see proofs.py.
    """
    deactivations = models.PositiveIntegerField(default=0, editable=False)
    """Increases when all sessions of the person end, such as when the account is closed. It ends
    those too that have no `BrowserSession`.
    """
    last_seen_at = models.DateTimeField(null=True, editable=False)
    """The last use of the pages, the API or git. Updated by `note_seen`."""
    wants_mail = models.BooleanField(default=False)
    """Whether the person gets e-mails about pings."""
    theme = models.CharField(
        max_length=6, default=Theme.SYSTEM.value, db_default=Theme.SYSTEM.value
    )
    has_shortcuts = models.BooleanField(default=True, db_default=True)
    """Whether the pages have keyboard shortcuts of a single key."""
    deletion = deletion_field("users")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = UserManager.from_queryset(UserQuerySet)()

    USERNAME_FIELD = "username"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["email"]

    class Meta:
        constraints = [
            # PostgreSQL does not treat a partial index as a key of the row. Otherwise a change of
            # address would wait for transactions that write rows with a foreign key to the person.
            models.UniqueConstraint(
                fields=["email_key"], condition=Q(email_key__isnull=False), name="user_email_once"
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(is_staff=True), name="user_is_staff"),
            models.Index(fields=["deletion"], condition=GONE, name="user_gone"),
            # PostgreSQL needs this operator class to find values by their beginning.
            models.Index(
                fields=["email_key"], name="user_by_email", opclasses=["varchar_pattern_ops"]
            ),
        ]

    def __str__(self) -> str:
        return self.username

    def clean_fields(self, exclude: Any = None) -> None:
        self._set_keys()
        super().clean_fields(exclude)

    def save(self, *args: Any, **options: Any) -> None:
        """Set the columns in lower case whenever a row is saved."""
        self._set_keys()
        fields = options.get("update_fields")
        if fields is not None:
            keys = {KEY_COLUMNS[field] for field in fields if field in KEY_COLUMNS}
            options["update_fields"] = {*fields, *keys}
        super().save(*args, **options)

    def get_session_auth_hash(self) -> str:
        """A hash of the password and of `deactivations`. A session ends when it changes."""
        return f"{super().get_session_auth_hash()}.{self.deactivations}"

    def note_seen(self) -> None:
        """Update `last_seen_at`, at most once in `SEEN_EVERY`."""
        now = timezone.now()
        if self.last_seen_at is not None and now - self.last_seen_at < SEEN_EVERY:
            return
        is_due = Q(last_seen_at=None) | Q(last_seen_at__lte=now - SEEN_EVERY)
        User.objects.filter(is_due, pk=self.pk).update(last_seen_at=now)
        self.last_seen_at = now

    def _set_keys(self) -> None:
        self.username_key = self.username.lower()
        self.display_name_key = self.display_name.lower()
        self.email_key = self.email.lower() or None

    @property
    def path(self) -> str:
        return f"users/{self.username}"

    @cached_property
    def bot_team_id(self) -> int | None:
        """The id of the team of a bot; one query. None for a person."""
        if not self.is_bot:
            return None
        pk: int | None = self.memberships.values_list("team", flat=True).first()
        return pk

    def event_keys(self) -> Keys:
        return Keys(site=True, person=self.pk, audit_team=self.bot_team_id)

    def event_target(self) -> Target:
        name = f"/users/{self.username}"
        return Target("user", {"username": self.username}, web=name, api=name)


def new_token() -> str:
    """A new token: `ght_`, 36 random base62 characters, and a checksum of 6 for secret scanners."""
    body = "".join(secrets.choice(BASE62) for _ in range(36))
    return f"{TOKEN_PREFIX}{body}{_checksum(body)}"


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits += BASE62[digit]
    return digits


def digest(token: str) -> str:
    """The SHA-256 of a token in hex, which is stored in place of the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def to_warn(self) -> ApiTokenQuerySet:
        """Those that expire within `WARNED_BEFORE`, and whose owner does not know it yet. Tokens
        that were made for a shorter time are left out.
        """
        now = timezone.now()
        active = self.filter(revoked_at=None, warned_at=None, user__is_active=True)
        ending = active.filter(expires_at__gt=now, expires_at__lte=now + WARNED_BEFORE)
        return ending.filter(created_at__lt=models.F("expires_at") - WARNED_BEFORE)

    def in_order(self, ordering: str) -> ApiTokenQuerySet:
        """Sort by one of `rules.ORDERINGS`, then by id in the same direction."""
        sign = "-" if ordering.startswith("-") else ""
        field = models.F(ordering.lstrip("-"))
        sort = field.desc(nulls_last=True) if sign else field.asc(nulls_last=True)
        return self.order_by(sort, f"{sign}id")


class ApiToken(models.Model):
    """An API token. Its text is shown once; only its digest is stored.

    It may do what its owner may, but no more than its permission allows and, if it is limited,
    nothing outside its repositories. One whose last repository is gone may do nothing.
    """

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, unique=True)
    token_prefix = models.CharField(max_length=PREFIX_LENGTH)
    # Null, not an empty text, without one: the partial index then has only rotated tokens.
    former_digest = models.CharField(max_length=64, null=True)  # noqa: DJ001
    """The digest of its text before the last rotation, which is valid until `former_until`."""
    former_until = models.DateTimeField(null=True)
    permission = models.CharField(
        max_length=5, default=Permission.ADMIN.value, db_default=Permission.ADMIN.value
    )
    is_limited = models.BooleanField(default=False, db_default=False)
    """Whether it is limited to `repos`. Without this column, an empty list would mean all."""
    repos = models.ManyToManyField("repos.Repo", related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    warned_at = models.DateTimeField(null=True)
    """When its owner was pinged about its expiry; null again after a rotation."""
    text: str
    """The token itself. Set only in memory, on a row that the admin has just created."""
    repo_ids: frozenset[int] | None
    """The ids of `repos`; None if it is not limited. `authentication.token_of` sets it."""
    known_repos: list[Any]
    """Those of `repos` that the viewer of its record may read; see `queries.load_repos`."""

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        indexes = [
            models.Index(fields=["user", "-created_at", "-id"], name="token_user_newest"),
            models.Index(fields=["token_prefix"], name="token_by_prefix"),
            models.Index(
                fields=["expires_at"],
                name="token_to_warn",
                condition=Q(expires_at__isnull=False, revoked_at=None, warned_at=None),
            ),
            models.Index(
                fields=["former_digest"],
                name="token_former_digest",
                condition=Q(former_digest__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.token_prefix}…)"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and not self.is_expired

    def ends_at(self, sent: str) -> dt.datetime | None:
        """When the text with this digest ends, which is that of the token or its former one."""
        if sent == self.digest:
            return self.expires_at
        ends = [end for end in (self.expires_at, self.former_until) if end is not None]
        return min(ends)

    def accepts(self, sent: str) -> bool:
        """Whether the text with this digest is valid now."""
        if sent == self.digest:
            return self.is_usable
        is_current = self.former_until is not None and self.former_until > timezone.now()
        return self.is_usable and is_current and sent == self.former_digest

    def touch(self) -> None:
        """Update `last_used_at`, at most once a minute, even if several calls come at once.

        It does nothing if the disk is full, so that reads still work.
        """
        now = timezone.now()
        if self.last_used_at is not None and now - self.last_used_at < USED_EVERY:
            return
        is_due = Q(last_used_at=None) | Q(last_used_at__lte=now - USED_EVERY)
        try:
            if ApiToken.objects.filter(is_due, pk=self.pk).update(last_used_at=now):
                self.last_used_at = now
            self.user.note_seen()
        except OperationalError as error:
            if not is_storage_full(error):
                raise

    def event_keys(self) -> Keys:
        team = self.user.bot_team_id
        return Keys(private_to=self.user_id, person=self.user_id, audit_team=team)

    def event_target(self) -> Target:
        return Target("token", {"uuid": str(self.uuid)}, api=f"/api-tokens/{self.uuid}")

    def event_title(self) -> None:
        return None


class InviteStatus(StrEnum):
    PENDING = "pending"
    ACCEPTED = "accepted"
    EXPIRED = "expired"


NOT_DELETED = Q(deleted_at=None)


class InviteQuerySet(models.QuerySet["Invite"]):
    def not_deleted(self) -> InviteQuerySet:
        return self.filter(NOT_DELETED)

    def visible_to(self, principal: Principal) -> InviteQuerySet:
        """The caller's own invites; for staff, all invites. Deleted ones are left out."""
        invites = self.not_deleted()
        return invites if principal.is_staff else invites.filter(created_by=principal.user.pk)

    def with_status(self, status: str) -> InviteQuerySet:
        if status == InviteStatus.ACCEPTED:
            return self.exclude(accepted_at=None)
        expired = Q(expires_at__lte=timezone.now())
        of_status = expired if status == InviteStatus.EXPIRED else ~expired
        return self.filter(of_status, accepted_at=None)

    def search(self, text: str) -> InviteQuerySet:
        """Invites that contain this text, ignoring case, in their address or in a name or address
        of the person who accepted them, or whose uuid begins with it.
        """
        key = text.lower()
        matches = Q(email_key__contains=key) | Q(accepted_by__username_key__contains=key)
        matches |= Q(accepted_by__display_name_key__contains=key)
        matches |= Q(accepted_by__email_key__contains=key)
        return self.filter(matches | uuid_begins(key))

    def in_order(self, sort: str) -> InviteQuerySet:
        """Sort by one of `rules.SORTS`, then by id in the same direction."""
        sign = "-" if sort.startswith("-") else ""
        column = "email_key" if sort.lstrip("-") == "email" else sort.lstrip("-")
        return self.order_by(f"{sign}{column}", f"{sign}id")


class Invite(SiteEvents, models.Model):
    """Lets one person sign up until it expires or is deleted. Deleted rows stay in the table."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    email = models.EmailField(max_length=EMAIL_MAX, blank=True)
    """The address of the invited person; if empty, anyone who has the link may sign up."""
    email_key = models.CharField(max_length=2 * EMAIL_MAX, blank=True, editable=False)
    expires_at = models.DateTimeField()
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="invites")
    created_at = models.DateTimeField(default=timezone.now)
    accepted_by = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="accepted_invites"
    )
    accepted_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)

    objects = InviteQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["created_by", "created_at"], name="invite_of_a_day"),
            models.Index(fields=["created_at", "id"], name="invite_by_age", condition=NOT_DELETED),
            models.Index(fields=["expires_at", "id"], name="invite_by_end", condition=NOT_DELETED),
            models.Index(fields=["email_key", "id"], name="invite_by_email", condition=NOT_DELETED),
            models.Index(
                fields=["email_key"],
                name="invite_by_begin",
                opclasses=["varchar_pattern_ops"],
                condition=NOT_DELETED,
            ),
        ]

    def __str__(self) -> str:
        return f"invite {str(self.uuid)[:8]}"

    def save(self, *args: Any, **options: Any) -> None:
        self.email_key = self.email.lower()
        super().save(*args, **options)

    @property
    def status(self) -> InviteStatus:
        if self.accepted_at is not None:
            return InviteStatus.ACCEPTED
        ended = self.expires_at <= timezone.now()
        return InviteStatus.EXPIRED if ended else InviteStatus.PENDING

    def url(self, base: str) -> str:
        """The URL of the sign-up page with this invite. `base` is the URL of the site."""
        return f"{base}/signup?invite={self.uuid}"

    def event_target(self) -> Target:
        api, ident = f"/signup-invites/{self.uuid}", {"uuid": str(self.uuid)}
        return Target("invite", ident, api=api, audit_ident={"id": self.pk})


BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "FxiOS/": "Firefox",
    "Chrome/": "Chrome",
    "CriOS/": "Chrome",
    "Safari/": "Safari",
}
"""Part of a `User-Agent` -> the browser. The first match counts: most claim to be Safari too."""
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iOS",
    "iPad": "iPadOS",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}
USER_AGENT_MAX = 255


class BrowserSession(models.Model):
    """A browser in which a person has signed in. Its row is deleted with Django's session."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    # The previous version deletes sessions without these rows, hence no constraint.
    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, db_constraint=False, related_name="browser"
    )
    """Django's session. Its key signs in: it never leaves the server except in the cookie."""
    created_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    address = models.CharField(max_length=64)
    """The client's address at its last visit, by `address_of`."""
    user_agent = models.CharField(max_length=USER_AGENT_MAX)

    def __str__(self) -> str:
        return f"session {str(self.uuid)[:8]}"

    @property
    def device(self) -> str:
        """The browser and its system as words, such as "Firefox on Linux"."""
        browser = _first_word(BROWSERS, self.user_agent) or "Unknown browser"
        system = _first_word(SYSTEMS, self.user_agent)
        return f"{browser} on {system}" if system else browser


def _first_word(words: dict[str, str], text: str) -> str:
    return next((word for part, word in words.items() if part in text), "")
