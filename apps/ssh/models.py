"""SSH keys of people, and deploy keys of repositories."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import cast

from django.db import OperationalError, models
from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import USED_EVERY, User
from apps.core.errors import is_storage_full
from apps.events.record import Keys, Target
from apps.repos.models import Repo

TITLE_MAX = 255
KEY_MAX = 8192
"""Most characters of a key with its comment. An RSA key of 16,384 bits has 2,750."""


class SshKey(models.Model):
    """A public key. With `user` it may do what this person may. With `repo` it is a deploy key,
    which reads this repository, and writes to it if `can_write`.
    """

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.ForeignKey(
        User,
        null=True,
        on_delete=models.CASCADE,
        related_name="ssh_keys",
        db_index=False,  # `ssh_key_of_user` begins with it
    )
    repo = models.ForeignKey(
        Repo,
        null=True,
        on_delete=models.CASCADE,
        related_name="deploy_keys",
        db_index=False,  # `ssh_key_of_repo` begins with it
    )
    title = models.CharField(max_length=TITLE_MAX)
    key = models.CharField(max_length=KEY_MAX)
    """Its type and base64, without a comment."""
    fingerprint = models.CharField(max_length=50, unique=True)
    """Unique on the whole site: the key alone tells who signs in."""
    can_write = models.BooleanField(default=False)
    """Whether a deploy key may push."""
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    """The actor of pushes with a deploy key."""
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "SSH key"
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None, repo__isnull=False) | Q(user__isnull=False, repo=None),
                name="ssh_key_has_one_owner",
            )
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="ssh_key_of_user"),
            models.Index(fields=["repo", "-id"], name="ssh_key_of_repo"),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.fingerprint})"

    @property
    def kind(self) -> str:
        """The type of the key, such as `ssh-ed25519`."""
        return self.key.partition(" ")[0]

    @property
    def person(self) -> User:
        """Its owner, or the person who added a deploy key."""
        return self.created_by if self.user is None else self.user

    def touch(self) -> None:
        """Update `last_used_at`, at most once a minute. It does nothing if the disk is full."""
        now: dt.datetime = timezone.now()
        if self.last_used_at is not None and now - self.last_used_at < USED_EVERY:
            return
        is_due = Q(last_used_at=None) | Q(last_used_at__lte=now - USED_EVERY)
        try:
            SshKey.objects.filter(is_due, pk=self.pk).update(last_used_at=now)
            if self.user is not None:
                self.user.note_seen()
        except OperationalError as error:
            if not is_storage_full(error):
                raise

    def event_keys(self) -> Keys:
        # Not those of the repository, whose readers may not see its deploy keys.
        if self.user_id is not None:
            return Keys(private_to=self.user_id, person=self.user_id)
        repo = cast("Repo", self.repo)
        return Keys(site=True, audit_team=repo.owner_team_id, audit_repo=repo.pk)

    def event_target(self) -> Target:
        ident = {"uuid": str(self.uuid)}
        if self.user_id is None:
            path = f"/{cast('Repo', self.repo).path}/settings/keys"
            return Target("ssh_key", ident, web=path)
        return Target("ssh_key", ident, web="/settings/keys", api=f"/users/self/keys/{self.uuid}")

    def event_title(self) -> None:
        return None
