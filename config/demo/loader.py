"""Carries out the steps of the demo by the actions of the API, so that all their events exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone

from apps.accounts.access import access_to_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.git.repo import GitRepo
from apps.pulls import actions as pulls
from apps.pulls.models import Pull
from apps.repos import actions as repos
from apps.repos.access import access_to
from apps.repos.jobs import make_fork
from apps.repos.models import ForkStatus, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from apps.teams.access import TeamAccess
from apps.threads import actions as threads
from apps.threads.models import Reply

ACTIONS: dict[str, Callable[..., object]] = {
    "add_approver": repos.add_approver,
    "create_protection": repos.create_protection,
    "create_pull": pulls.create_pull,
    "create_reply": threads.create_reply,
    "create_review": pulls.create_review,
    "create_thread": threads.create_thread,
    "delete_reply": threads.delete_reply,
    "merge_pull": pulls.merge_pull,
    "update_pull": pulls.update_pull,
    "update_reply": threads.update_reply,
}
"""Called with the access of the person, and the arguments as `Loader.argument` reads them."""


class Loader:
    """The repositories made so far, by path, and how to make more of them."""

    def __init__(self, team: TeamAccess, users: Mapping[str, User], history: GitRepo) -> None:
        self.team = team
        self.users = users
        self.history = history
        self.repos: dict[str, Repo] = {}

    def run(self, path: str, user: User, action: str, arguments: Mapping[str, Any]) -> None:
        """Carry out one step in the repository at this path."""
        if action == "create_repo":
            self.repos[path] = repos.create_repo(by=self.team, **arguments)
        elif action == "create_fork":
            self.fork(self.repos[path], user)
        elif action == "push":
            self.push(self.repos[path], user, arguments)
        else:
            repo = self.repos[path]
            access = access_to(Principal(user), repo)
            read = {name: self.argument(repo, name, value) for name, value in arguments.items()}
            ACTIONS[action](by=access, **read)

    def argument(self, repo: Repo, name: str, value: Any) -> Any:
        """The object that an argument names; other arguments as they are.

        Pulls and threads go by number, replies as `thread/reply`, protections by branch.
        """
        match name:
            case "user":
                value = self.users[value]
            case "protection":
                value = repo.protections.get(branch=value)
            case "pull":
                value = Pull.objects.get(thread__repo=repo, thread__number=value)
            case "thread":
                value = repo.threads.get(number=value)
            case "reply":
                thread, number = value.split("/")
                replies = Reply.objects.filter(thread__repo=repo, thread__number=thread)
                value = replies.get(number=number)
            case "body":
                value = value.replace("{main}", (repo.branch_sha("main") or "")[:10])
        return value

    def push(self, repo: Repo, user: User, refs: Mapping[str, str]) -> None:
        """Move refs as any push does, with journal, rows and events; `refs`: full names in the
        repository, and in the imported history.
        """
        targets = self.history.some_refs(set(refs.values()))
        for ref in refs.values():
            repo.git.fetch_objects(self.history, targets[ref])
        present = repo.git.some_refs(refs)
        moves = [(name, present.get(name, ZERO), targets[ref]) for name, ref in refs.items()]
        push = open_journal(actor=user, repo=repo, moves=moves)
        repo.git.update_refs([(name, new, old) for name, old, new in moves])
        settle(repo=repo, push=push)

    def fork(self, upstream: Repo, user: User) -> None:
        """Let a person have a copy, as the worker would make it."""
        principal = Principal(user)
        into = access_to_user(principal, user)
        fork = repos.create_fork(by=access_to(principal, upstream), into=into)
        token = fork.take(status=ForkStatus.RUNNING, started_at=timezone.now())
        if token is not None:
            make_fork(fork, token)
        fork.refresh_from_db()
        if fork.repo is None:
            raise RuntimeError(f"The fork of the demo was not made: {fork.error}")
        self.repos[fork.repo.path] = Repo.objects.get(pk=fork.repo.pk)
