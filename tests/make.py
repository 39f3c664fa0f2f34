"""Builds what tests need: people and teams as rows, without events, and what they write by the
actions that the API calls, with events.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from django.contrib.auth.hashers import make_password

from apps.accounts.models import SHOWN, TOKEN_PREFIX, ApiToken, User, digest, new_token
from apps.pulls import actions as pulls
from apps.pulls.models import Pull, Review, ReviewStatus
from apps.repos import actions as repos
from apps.repos.models import Fork, ForkStatus, Protection, Repo
from apps.teams.models import Member, Role, Team
from apps.threads import actions as threads
from apps.threads.models import Reply, Thread
from tests.principals import access_of, space_access_of


class Make:
    """One object per test; names are numbered where none is given."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.tokens: dict[int, str] = {}

    def user(
        self,
        username: str = "",
        *,
        email: str = "",
        password: str | None = None,
        is_staff: bool = False,
    ) -> User:
        user = User(username=username or f"user{next(self.numbers)}", email=email)
        user.is_staff = user.is_superuser = is_staff
        user.password = make_password(password)
        user.save()
        self.token(user)
        return user

    def token(self, user: User) -> str:
        """The text of a token of this person; one for each person."""
        if user.pk not in self.tokens:
            self.tokens[user.pk] = text = new_token()
            shown = text[: len(TOKEN_PREFIX) + SHOWN]
            token = ApiToken(user=user, name="tests", digest=digest(text), token_prefix=shown)
            token.save(force_insert=True)
        return self.tokens[user.pk]

    def team(self, slug: str = "", *, owner: User) -> Team:
        slug = slug or f"team{next(self.numbers)}"
        team = Team.objects.create(name=slug.title(), slug=slug)
        Member.objects.create(team=team, user=owner, role=Role.OWNER, added_by=owner)
        return team

    def member(
        self, team: Team, user: User, role: Role = Role.MEMBER, *, by: User | None = None
    ) -> Member:
        """A member whom `by` has added, or nobody remembers who."""
        member = Member(team=team, user=user, role=role, added_by=by)
        member.save(force_insert=True)
        return member

    def repo(self, owner: Team | User, slug: str = "", *, by: User, **fields: Any) -> Repo:
        slug = slug or f"repo{next(self.numbers)}"
        return repos.create_repo(
            by=space_access_of(by, owner), name=slug.title(), slug=slug, **fields
        )

    def protection(
        self, repo: Repo, branch: str = "main", *, by: User, approver: User | None = None
    ) -> Protection:
        made = repos.create_protection(by=access_of(by, repo), branch=branch)
        if approver is not None:
            repos.add_approver(by=access_of(by, made.repo), protection=made, user=approver)
        return made

    def fork(self, upstream: Repo, *, owner: Team | User, by: User) -> Fork:
        """A completed fork, without the work of a copy: rows alone."""
        owned = {"owner_user": owner} if isinstance(owner, User) else {"owner_team": owner}
        slug = f"fork{next(self.numbers)}"
        copy = Repo.objects.create(
            name="Fork", slug=slug, visibility=upstream.visibility, upstream=upstream, **owned
        )
        return Fork.objects.create(
            upstream=upstream, created_by=by, repo=copy, status=ForkStatus.COMPLETED, **owned
        )

    def thread(self, repo: Repo, *, by: User, **fields: Any) -> Thread:
        wanted = {"title": "Slow pushes", "body": "", "kind": "discussion", **fields}
        return threads.create_thread(by=access_of(by, repo), **wanted)

    def reply(self, thread: Thread, *, by: User, to: Reply | None = None, **fields: Any) -> Reply:
        """An answer to the thread, or `to` one of its replies."""
        wanted = {"kind": "comment", "body": "Same here.", **fields}
        if to is not None:
            wanted["parent_reply_number"] = to.number
        return threads.create_reply(by=access_of(by, thread.repo), thread=thread, **wanted)

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
            by=access_of(by, repo),
            title=title or f"Pull {next(self.numbers)}",
            body=body,
            source_branch=source,
            target_branch=target,
        )

    def review(
        self, pull: Pull, *, by: User, status: str = ReviewStatus.APPROVED, body: str = ""
    ) -> Review:
        return pulls.create_review(by=access_of(by, pull.repo), pull=pull, status=status, body=body)
