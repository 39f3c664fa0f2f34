"""Limits on the disk space of each repository, and of all repositories of one owner.

The worker measures `Repo.disk_bytes` after pushes and daily. A large push adds its bytes at once,
so that they count for the next push.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import F, Sum

from apps.accounts.models import User
from apps.core.errors import Conflict
from apps.git.protocol import PushRequest
from apps.git.store import bytes_in
from apps.repos.models import Repo
from apps.teams.models import Team

COUNTED_AT_ONCE = 1024 * 1024
"""Bytes. A push with at least this many is added to `disk_bytes` at once."""


def bytes_left(repo: Repo) -> tuple[int, str]:
    """The number of bytes that a push may add, which may be negative, and the limit as text."""
    total = bytes_of(repo.owner)
    own = Repo.objects.values_list("disk_bytes", flat=True).get(pk=repo.pk)
    return min(
        (settings.REPO_BYTES - own, f"this repository may take {size_of(settings.REPO_BYTES)}"),
        (settings.OWNER_BYTES - total, limit_of(repo.owner)),
    )


def check_copy(upstream: Repo, owner: Team | User) -> None:
    """409 `quota_reached` if a copy of this repository would exceed the owner's limit."""
    check_room(upstream.disk_bytes, owner)


def check_import(size: int, owner: Team | User) -> None:
    """409 `quota_reached` if a new repository of this size would exceed a limit."""
    if size > settings.REPO_BYTES:
        text = f"A repository may take {size_of(settings.REPO_BYTES)}."
        raise Conflict("quota_reached", text)
    check_room(size, owner)


def check_room(size: int, owner: Team | User) -> None:
    """409 `quota_reached` if so many bytes more would exceed the owner's limit."""
    if bytes_of(owner) + size > settings.OWNER_BYTES:
        raise Conflict("quota_reached", f"There is no room for a copy: {limit_of(owner)}.")


def bytes_of(owner: Team | User) -> int:
    return owner.repos.aggregate(total=Sum("disk_bytes"))["total"] or 0


def limit_of(owner: Team | User) -> str:
    return f"all repositories of {owner.path} may take {size_of(settings.OWNER_BYTES)}"


def size_of(count: int) -> str:
    """A number of bytes as text, in GiB if it is a whole number of them, else in MiB."""
    return f"{count // 1024**3} GiB" if count % 1024**3 == 0 else f"{count // 1024**2} MiB"


def refusals(request: PushRequest, left: int, limit: str) -> dict[str, str]:
    """Refuse creations and moves if no bytes are left. Deletions are allowed: they free space."""
    if left > 0:
        return {}
    reason = f"storage quota used up: {limit}"
    return {command.ref: reason for command in request.commands if not command.deletes}


def add_pushed(repo: Repo, sent: int) -> None:
    """Add the bytes of a large push, whose objects git has kept, to `disk_bytes`."""
    if sent >= COUNTED_AT_ONCE:
        Repo.objects.filter(pk=repo.pk).update(disk_bytes=F("disk_bytes") + sent)


def measure(repo: Repo) -> None:
    Repo.objects.filter(pk=repo.pk).update(disk_bytes=bytes_in(repo.git.path))
