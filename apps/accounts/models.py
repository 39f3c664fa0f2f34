"""People and their API tokens."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
import uuid
import zlib
from typing import Any

from django.contrib.auth.models import (
    AbstractBaseUser,
    AnonymousUser,
    BaseUserManager,
    PermissionsMixin,
)
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from apps.core.access import Level
from apps.core.slugs import USERNAME_MAX, username_problem
from apps.events.record import Keys, Target

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TOKEN_PREFIX = "ght_"  # noqa: S105 - the public beginning of every token
SHOWN = 8
USED_EVERY = dt.timedelta(minutes=1)


def validate_username(name: str) -> None:
    """Django's form of the username rule, for the admin and `createsuperuser`."""
    problem = username_problem(name)
    if problem is not None:
        raise ValidationError(problem)


class UserManager(BaseUserManager["User"]):
    """What Django's own commands ask for; usernames are found ignoring case."""

    def create_user(
        self, username: str, email: str = "", password: str | None = None, **fields: Any
    ) -> User:
        user = self.model(username=username, email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(
        self, username: str, email: str = "", password: str | None = None, **fields: Any
    ) -> User:
        return self.create_user(
            username, email, password, is_staff=True, is_superuser=True, **fields
        )

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(username_key=(username or "").lower())


class User(AbstractBaseUser, PermissionsMixin):
    """Somebody who can sign in. Never deleted, only deactivated: content keeps its author."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    username = models.CharField(
        max_length=USERNAME_MAX, unique=True, validators=[validate_username]
    )
    username_key = models.CharField(max_length=USERNAME_MAX, unique=True, editable=False)
    """The username in lower case, for look-ups and uniqueness."""
    display_name = models.CharField(max_length=100, blank=True)
    email = models.EmailField(blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = UserManager()

    USERNAME_FIELD = "username"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["email"]

    def __str__(self) -> str:
        return self.username

    def clean_fields(self, exclude: Any = None) -> None:
        self.username_key = self.username.lower()
        super().clean_fields(exclude)

    def save(self, *args: Any, **options: Any) -> None:
        """Keep the look-up key in step with the name, whoever writes it."""
        self.username_key = self.username.lower()
        super().save(*args, **options)

    def access(self, user: User | AnonymousUser) -> Level:
        """The level on this person's own space: themself and staff own it."""
        return Level.OWNER if user.is_staff or user.pk == self.pk else Level.NONE

    def check_open(self, user: User, *, writing: bool) -> None:
        """A personal space is never closed."""

    def check_writable(self) -> None:
        """A personal space can always be changed by its owner."""

    @property
    def path(self) -> str:
        return f"users/{self.username}"

    def event_keys(self) -> Keys:
        return Keys(site=True)

    def event_target(self) -> Target:
        name = f"/users/{self.username}"
        return Target("user", {"username": self.username}, web=name)

    def event_title(self) -> None:
        return None


def new_token() -> str:
    """`ght_`, 36 random base62 characters, 6 of checksum, so that a scanner can recognise one."""
    body = "".join(secrets.choice(BASE62) for _ in range(36))
    return f"{TOKEN_PREFIX}{body}{_checksum(body)}"


def _checksum(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits += BASE62[digit]
    return digits


def digest(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def visible_to(self, user: User) -> ApiTokenQuerySet:
        """A person's own tokens; staff reaches everybody's."""
        return self if user.is_staff else self.filter(user=user)

    def in_order(self, ordering: str) -> ApiTokenQuerySet:
        """Sorted by one of `rules.ORDERINGS`, ties by id in the same direction."""
        sign = "-" if ordering.startswith("-") else ""
        field = models.F(ordering.lstrip("-"))
        sort = field.desc(nulls_last=True) if sign else field.asc(nulls_last=True)
        return self.order_by(sort, f"{sign}id")


class ApiToken(models.Model):
    """A bearer token. Its text is shown once; only the digest is kept."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, unique=True)
    token_prefix = models.CharField(max_length=len(TOKEN_PREFIX) + SHOWN)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["user", "-created_at", "-id"], name="token_user_newest")]

    def __str__(self) -> str:
        return f"token {self.token_prefix}… of {self.user_id}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and not self.is_expired

    def holder(self) -> User | None:
        """Whom the token lets in now, read anew; None when it is gone, or its owner inactive."""
        token = ApiToken.objects.select_related("user").filter(pk=self.pk).first()
        return token.user if token and token.is_usable and token.user.is_active else None

    def touch(self) -> None:
        """Note the use, at most once a minute."""
        now = timezone.now()
        if self.last_used_at is not None and now - self.last_used_at < USED_EVERY:
            return
        ApiToken.objects.filter(pk=self.pk).update(last_used_at=now)
        self.last_used_at = now

    def event_keys(self) -> Keys:
        return Keys(private_to=self.user_id)

    def event_target(self) -> Target:
        return Target("token", {"uuid": str(self.uuid)}, api=f"/api-tokens/{self.uuid}")

    def event_title(self) -> None:
        return None
