"""Actions on SSH keys. Each is one transaction with one change and its event."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level, Permission
from apps.core.controls import without_controls
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.record import Deleted, record
from apps.repos.access import RepoAccess
from apps.ssh.models import TITLE_MAX, SshKey
from apps.ssh.public_keys import InvalidKey, parse_key

MOST_KEYS = 50
"""Most keys of a person, and of a repository."""


@final_transaction
def create_key(*, principal: Principal, key: str, title: str = "") -> SshKey:
    """Add an SSH key to the caller. Without a title it gets the comment of the key.

    Locks the person. Errors: 403 `person_required` for a bot, 409 `key_in_use`, `key_limit`, 422.
    """
    principal.check_permission(Permission.ADMIN)
    principal.check_person()
    user = principal.user
    lock(user)
    return _add(user.ssh_keys, key, title, by=user)


@transaction.atomic
def delete_key(*, principal: Principal, ssh_key: SshKey) -> None:
    """Delete one of the caller's own keys. Its connections end within a second."""
    principal.check_permission(Permission.ADMIN)
    if ssh_key.user_id != principal.user.pk:
        raise ValueError(f"{ssh_key!r} is not a key of {principal.user}")
    _delete(ssh_key, principal.user)


@final_transaction
def create_deploy_key(
    *, access: RepoAccess, key: str, title: str = "", can_write: bool = False
) -> SshKey:
    """Add a deploy key to a repository. Without a title it gets the comment of the key.

    Locks the repository. Errors: 409 `key_in_use`, `key_limit`, `repo_archived`, 422.
    """
    access.require_change(Level.ADMIN)
    repo = access.locked()
    return _add(repo.deploy_keys, key, title, by=access.user, can_write=can_write)


@transaction.atomic
def delete_deploy_key(*, access: RepoAccess, ssh_key: SshKey) -> None:
    """Delete a deploy key. Its connections end within a second. 409 `repo_archived`."""
    access.require_change(Level.ADMIN)
    access.check_holds(ssh_key)
    access.locked()
    _delete(ssh_key, access.user)


def _add(keys: Any, text: str, title: str, *, by: User, can_write: bool = False) -> SshKey:
    """Add a key to the keys of an owner, who is locked."""
    try:
        parsed = parse_key(text)
    except InvalidKey as error:
        raise Invalid("validation_failed", f"key: {error}") from None
    if keys.count() >= MOST_KEYS:
        raise Conflict("key_limit", f"There are {MOST_KEYS} keys, the most that are possible.")
    title = title or without_controls(parsed.comment)[:TITLE_MAX].strip() or parsed.kind
    try:
        with transaction.atomic():
            row: SshKey = keys.create(
                title=title,
                key=parsed.text,
                fingerprint=parsed.fingerprint,
                can_write=can_write,
                created_by=by,
            )
    except IntegrityError:
        text = "This key is in use already: each key belongs to one person or one repository."
        raise Conflict("key_in_use", text) from None
    record(Kind.SSH_KEY_CREATED, actor=by, about=row, data={"name": row.title})
    return row


def _delete(row: SshKey, by: User) -> None:
    lock(row)
    keys = row.event_keys()
    SshKey.objects.filter(pk=row.pk).delete()
    data = {"name": row.title}
    record(Kind.SSH_KEY_DELETED, actor=by, about=Deleted(row, keys), data=data)
