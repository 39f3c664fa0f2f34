"""How many bytes of disk repositories may take: each one, and all of one person or team.

`Repo.disk_bytes` is measured by the worker after pushes, and daily. A large push adds what it has
sent at once, so that the next one is compared with that.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import F, Sum

from apps.accounts.models import User
from apps.core.errors import Conflict
from apps.git.configuration import MOST_PUSHED
from apps.git.protocol import PushRequest
from apps.git.store import bytes_in
from apps.repos.models import Repo
from apps.teams.models import Team

COUNTED_AT_ONCE = 1024 * 1024
"""Bytes of a push that are added to the size before the worker measures it."""


def bytes_left(repo: Repo) -> tuple[int, str]:
    """How many bytes a push may add, perhaps fewer than none, and the limit that says so."""
    total = bytes_of(repo.owner)
    own = Repo.objects.values_list("disk_bytes", flat=True).get(pk=repo.pk)
    return min(
        (settings.REPO_BYTES - own, f"this repository may take {size_of(settings.REPO_BYTES)}"),
        (settings.OWNER_BYTES - total, limit_of(repo.owner)),
    )


def check_copy(upstream: Repo, owner: Team | User) -> None:
    """409 `quota_reached` where a copy of this repository would be too much for its owner."""
    if bytes_of(owner) + upstream.disk_bytes > settings.OWNER_BYTES:
        raise Conflict("quota_reached", f"There is no room for a copy: {limit_of(owner)}.")


def bytes_of(owner: Team | User) -> int:
    """Bytes that all repositories of a team or person take on the disk."""
    return owner.repos.aggregate(total=Sum("disk_bytes"))["total"] or 0


def limit_of(owner: Team | User) -> str:
    return f"all repositories of {owner.path} may take {size_of(settings.OWNER_BYTES)}"


def size_of(count: int) -> str:
    """This many bytes in the largest unit that has them whole."""
    return f"{count // 1024**3} GiB" if count % 1024**3 == 0 else f"{count // 1024**2} MiB"


def refusals(request: PushRequest, left: int, limit: str) -> dict[str, str]:
    """Why no ref may be created or moved where nothing is left. Deletions make room."""
    if left > 0:
        return {}
    reason = f"storage quota used up: {limit}"
    return {command.ref: reason for command in request.commands if not command.deletes}


def most_of_push(left: int) -> int | None:
    """Bytes that git may take of a push; None where the usual limit comes first."""
    return left if 0 < left < MOST_PUSHED else None


def add_pushed(repo: Repo, sent: int) -> None:
    """Count what a push has sent, if it was much."""
    if sent >= COUNTED_AT_ONCE:
        Repo.objects.filter(pk=repo.pk).update(disk_bytes=F("disk_bytes") + sent)


def measure(repo: Repo) -> None:
    """Store the size that the repository has on disk."""
    Repo.objects.filter(pk=repo.pk).update(disk_bytes=bytes_in(repo.git.path))
