"""What every repository of the example is made with: its people, and pushes by them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.pulls.actions import create_pull
from apps.pulls.models import Pull, PullStatus
from apps.pulls.rules import signature
from apps.repos.access import RepoAccess, access_to
from apps.repos.models import BRANCHES, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from config.demo.objects import File, Objects


class Example:
    """A repository, what each of the four people may do there, and a clock for its commits."""

    def __init__(self, repo: Repo, users: Mapping[str, User], days: int) -> None:
        """The clock begins so many `days` ago."""
        self.repo = repo
        self.alice, self.bob, self.carol, self.dave = (
            access_to(Principal(user), repo) for user in users.values()
        )
        self.clock = timezone.now() - timedelta(days=days)
        self.objects = Objects()

    def who(self, user: User, hours: int = 1) -> str:
        """A person and a time, as git writes them: so many hours after the one before."""
        self.clock += timedelta(hours=hours)
        return f"{signature(user).name} <{user.email}> {int(self.clock.timestamp())} +0000"

    def commit(
        self, user: User, message: str, files: Mapping[str, File], *parents: str, hours: int = 1
    ) -> str:
        """A commit of exactly these files, which `push` will store; returns its name."""
        tree = self.objects.tree(files)
        return self.objects.commit(tree, parents, self.who(user, hours), message)

    def push(self, by: RepoAccess, refs: Mapping[str, str]) -> None:
        """Move refs, by full name, as any push does: with journal, rows and events."""
        self.objects.store(self.repo.git)
        present = self.repo.git.some_refs(refs)
        moves = [(name, present.get(name, ZERO), sha) for name, sha in refs.items()]
        push = open_journal(actor=by.user, repo=self.repo, moves=moves)
        self.repo.git.update_refs([(name, new, old) for name, old, new in moves])
        settle(repo=self.repo, push=push)

    def push_branches(self, by: RepoAccess, branches: Mapping[str, str]) -> None:
        """As `push`, by the short names of branches."""
        self.push(by, {BRANCHES + name: sha for name, sha in branches.items()})

    def open_pull(
        self,
        by: RepoAccess,
        title: str,
        body: str,
        source: str,
        target: str = "main",
        status: str = PullStatus.OPEN,
    ) -> Pull:
        """Open a pull."""
        branches = {"source_branch": source, "target_branch": target}
        return create_pull(by=by, title=title, body=body, status=status, **branches)
