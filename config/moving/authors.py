"""Authors of imported texts: accounts of this site, or closed accounts that stand for people who
have none here.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import NAMESPACE_URL, uuid5

from django.utils import timezone

from apps.accounts.models import NOT_GONE, Deletion, User
from apps.core.locks import hold
from apps.core.slugs import IMPORTED, USERNAME_MAX

NOBODY = "nobody"
"""The author of deleted replies, whom archives do not name."""
ROOM = 4
"""Characters for a number behind a name that is taken."""


class Authors:
    """Finds accounts by the usernames of the source. Use it in a transaction.

    `mapped`: accounts by the username in the source, in lower case. `source`: the address of the
    source. Archives of the same source share the closed accounts.
    """

    def __init__(self, source: str, mapped: Mapping[str, User], *, match: bool) -> None:
        self.source, self.match = source, match
        self.ids = {name: user.pk for name, user in mapped.items()}
        self.added: list[str] = []
        """The usernames of the closed accounts that were added."""

    def id_of(self, name: str) -> int:
        """The id of the account that stands for this person."""
        key = name.lower()
        if key not in self.ids:
            self.ids[key] = (self._matching(key) or self._closed(name)).pk
        return self.ids[key]

    def maybe(self, name: str | None) -> int | None:
        """`id_of`; None for None."""
        return None if name is None else self.id_of(name)

    def username_of(self, name: str) -> str:
        """The username of the account that stands for this person."""
        return User.objects.only("username").get(pk=self.id_of(name)).username

    def _matching(self, key: str) -> User | None:
        return User.objects.filter(NOT_GONE, username_key=key).first() if self.match else None

    def _closed(self, name: str) -> User:
        hold("closed accounts of authors")
        uuid = uuid5(NAMESPACE_URL, f"{self.source}/users/{name.lower()}")
        user = User.objects.filter(uuid=uuid).first()
        if user is None:
            user = User(uuid=uuid, username=free_name(name), display_name=name, is_active=False)
            user.set_unusable_password()
            user.save()
            now = timezone.now()  # like an account that was purged (docs/deletion.md)
            user.deletion = Deletion.objects.create(
                path=user.path, deleted_by=user, deleted_at=now, is_purging=True
            )
            user.save(update_fields=["deletion"])
            self.added.append(user.username)
        return user


def free_name(name: str) -> str:
    """A username such as `imported-bob`, which nobody else can have."""
    stem = f"{IMPORTED}{name}"[: USERNAME_MAX - ROOM].rstrip("-_.")
    own = User.objects.filter(username_key__startswith=stem.lower())
    taken = set(own.values_list("username_key", flat=True))
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name.lower() not in taken)
