"""The principals of SSH keys, and access to the repository that a command of git names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level, Permission
from apps.core.errors import Forbidden
from apps.repos.access import BY_ID, RepoAccess, open_repo
from apps.repos.models import Repo
from apps.ssh.models import SshKey


@dataclass(frozen=True)
class SentKey:
    """A key that has signed in. Open connections end with it."""

    ssh_key: SshKey
    expires_at: None = None

    def holder(self) -> User | None:
        """Its person, read from the database; None if the key was deleted or the account closed."""
        row = find_key(self.ssh_key.fingerprint)
        return None if row is None or row.pk != self.ssh_key.pk else row.person


def find_key(fingerprint: str) -> SshKey | None:
    """The key with this fingerprint, unless its person's account is closed. Deploy keys are valid
    without the person who added them.
    """
    rows = SshKey.objects.select_related("user", "created_by", "repo")
    row = rows.filter(fingerprint=fingerprint).first()
    return None if row is None or (row.user is not None and not row.user.is_active) else row


def principal_of_key(row: SshKey) -> Principal:
    """The principal of a key. That of a deploy key has its creator, only as the actor of events."""
    if row.repo_id is None:
        return Principal(row.person, SentKey(row))
    permission = Permission.WRITE if row.can_write else Permission.READ
    return Principal(row.person, SentKey(row), permission, frozenset({row.repo_id}))


@dataclass(frozen=True)
class DeployAccess(RepoAccess):
    """The access of a deploy key to its repository, whatever its creator may do now."""

    @property
    def user(self) -> User:
        """The creator of the key, who may have left."""
        return cast("User", self.principal.person)

    def require_change(self, needed: Level, permission: Permission = Permission.WRITE) -> None:
        """403 for a key that only reads; 403 and 409 as `check_writable`."""
        if self.granted < needed:
            raise Forbidden("role_required", f"This deploy key only reads {self.name}.")
        self.check_writable()

    def renewed(self) -> RepoAccess:
        """This access with all rows reloaded; without any level if the key was deleted. 404."""
        row = find_key(cast("SentKey", self.principal.credential).ssh_key.fingerprint)
        repo = BY_ID.one(person=None, pk=self.repo.pk)
        if row is None or row.repo_id != repo.pk:
            return DeployAccess(self.principal, Level.NONE, repo, repo.path.lower())
        return access_of_deploy_key(principal_of_key(row), repo)


def access_of_deploy_key(principal: Principal, repo: Repo) -> DeployAccess:
    """Access of a deploy key to its loaded repository, as far as the key allows."""
    return DeployAccess(principal, principal.permission.ceiling, repo, repo.path.lower())


def open_by_key(row: SshKey, owner: str, slug: str, *, writing: bool) -> RepoAccess:
    """Access to a repository for a command of git, by its owner's path and its slug.

    Errors: 404, 403, and 409 `repo_archived`, as over HTTP with a token.
    """
    principal, needs = principal_of_key(row), Level.WRITE if writing else Level.READ
    if row.repo is None:
        access = open_repo(principal, owner, slug, needs=needs, writing=writing, former=True)
    else:
        access = _open_own(principal, row.repo, owner, slug, writing=writing)
    if writing:
        access.require_change(needs)
    return access


def _open_own(
    principal: Principal, repo: Repo, owner: str, slug: str, *, writing: bool
) -> RepoAccess:
    """Access of a deploy key to its repository, by its present slug or a former one."""
    present = BY_ID.one(person=None, pk=repo.pk)
    path = f"{owner}/{slug}"
    names = {present.slug, *present.former_slugs.values_list("slug", flat=True)}
    if owner != present.owner.path.lower() or slug not in names:
        raise Forbidden("forbidden", f"This deploy key is for another repository than {path}.")
    access = access_of_deploy_key(principal, present)
    access.check_open(writing=writing)
    return access
