"""Creates repositories, threads, pulls and reviews by the actions of the API, with their events,
counters and files.

tests/factories.py creates rows without these.
"""

from __future__ import annotations

import datetime as dt
from itertools import count
from typing import Any

from django.utils import timezone

from apps.accounts.actions import create_token
from apps.accounts.models import ApiToken, User, new_token
from apps.pulls import actions as pulls
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.repos import actions as repos
from apps.repos.models import Protection, Repo
from apps.teams.models import Team
from apps.threads import actions as threads
from apps.threads.models import Reply, Thread
from apps.uploads import actions as uploads
from apps.uploads.models import Upload
from tests.factories import ApiTokenFactory
from tests.principals import access_of, space_access_of


class MakeByActions:
    """One object for each test. It has the tokens of people, and makes up names by number."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.tokens: dict[int, str] = {}

    def token(self, user: User) -> str:
        """The text of this user's token, which the first call creates."""
        if user.pk not in self.tokens:
            self.tokens[user.pk] = text = new_token()
            ApiTokenFactory.create(user=user, text=text)
        return self.tokens[user.pk]

    def scoped_token(self, user: User, *repos: Repo, permission: str = "admin") -> str:
        """The text of a new token with this permission, limited to these repositories if there are
        any.
        """
        paths = [repo.path for repo in repos] if repos else None
        made = create_token(
            principal=None, owner=user, name="scoped", permission=permission, repo_paths=paths
        )
        return made[1]

    def expiring_token(self, user: User) -> ApiToken:
        """A token of a month that expires in five days, and whose owner does not know it yet."""
        now = timezone.now()
        token, _ = create_token(
            principal=None, owner=user, name="ci", expires_at=now + dt.timedelta(days=5)
        )
        ApiToken.objects.filter(pk=token.pk).update(created_at=now - dt.timedelta(days=25))
        return token

    def with_token(self, user: User) -> User:
        """The user, with a token."""
        self.token(user)
        return user

    def repo(self, owner: Team | User, slug: str = "", *, by: User, **fields: Any) -> Repo:
        slug = slug or f"repo{next(self.numbers)}"
        return repos.create_repo(
            access=space_access_of(by, owner), name=slug.title(), slug=slug, **fields
        )

    def protection(
        self, repo: Repo, branch: str = "main", *, by: User, approver: User | None = None
    ) -> Protection:
        made = repos.create_protection(access=access_of(by, repo), branch=branch)
        if approver is not None:
            self.approver(made, approver)
        return made

    def approver(self, protection: Protection, user: User) -> None:
        by = access_of(protection.created_by, protection.repo)
        repos.add_approver(access=by, protection=protection, user=user)

    def thread(self, repo: Repo, *, by: User, **fields: Any) -> Thread:
        wanted = {"title": "Slow pushes", "body": "", "kind": "discussion", **fields}
        return threads.create_thread(access=access_of(by, repo), **wanted)

    def reply(self, thread: Thread, *, by: User, to: Reply | None = None, **fields: Any) -> Reply:
        """An answer to the thread, or `to` one of its replies."""
        wanted = {"kind": "comment", "body": "Same here.", **fields}
        if to is not None:
            wanted["parent_reply_number"] = to.number
        return threads.create_reply(access=access_of(by, thread.repo), thread=thread, **wanted)

    def upload(
        self, repo: Repo, *, by: User, filename: str = "notes.txt", content: bytes = b"Slow.\n"
    ) -> Upload:
        return uploads.create_upload(access=access_of(by, repo), filename=filename, content=content)

    def pull(
        self,
        repo: Repo,
        *,
        by: User,
        source: str = "feature",
        target: str = "main",
        title: str = "",
        body: str = "",
    ) -> Pull:
        return pulls.create_pull(
            access=access_of(by, repo),
            title=title or f"Pull {next(self.numbers)}",
            body=body,
            source_branch=source,
            target_branch=target,
        )

    def review(
        self, pull: Pull, *, by: User, status: str = ReviewStatus.APPROVED, body: str = ""
    ) -> Review:
        return pulls.create_review(
            access=access_of(by, pull.repo), pull=pull, status=status, body=body
        )
