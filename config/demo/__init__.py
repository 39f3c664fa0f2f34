"""Example data for `serve --demo`: people, two repositories with history, pulls and threads.

`steps.json` lists who calls which action. `files/*.fast-import` hold the commits as streams of
git-fast-import(1): edit them as text, or print one from a clone with
`git fast-export --all --refspec='refs/heads/*:refs/heads/<slug>/*'`.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.accounts.access import access_to_user
from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.views import site_url
from apps.git.repo import GitRepo
from apps.pulls import actions as pulls
from apps.pulls.models import Pull
from apps.repos import actions as repos
from apps.repos.access import access_to
from apps.repos.jobs import make_fork
from apps.repos.models import ForkStatus, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from apps.teams.access import TeamAccess, access_to_team
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from apps.threads import actions as threads
from apps.threads.models import Reply

STEPS: dict[str, Any] = json.loads((Path(__file__).parent / "steps.json").read_text())
PEOPLE: dict[str, str] = STEPS["people"]


def load() -> str:
    """Create the example data in one transaction; returns a text with the password and the tokens
    of its people, which cannot be shown again.

    If one of the names or addresses is taken, nothing is changed.
    """
    addresses = {name: f"{name}@example.org" for name in PEOPLE}
    same = Q(username_key__in=PEOPLE) | Q(email_key__in=addresses.values())
    people = User.objects.filter(same).values_list("username", flat=True)
    teams = Team.objects.filter(slug=STEPS["team"]["slug"]).values_list("slug", flat=True)
    if taken := [*people, *teams]:
        return f"The demo is not loaded (again): there is {', '.join(taken)} already.\n"
    password = secrets.token_urlsafe(12)
    with transaction.atomic():
        users = {
            name: create_user(principal=None, username=name, email=address, password=password)
            for name, address in addresses.items()
        }
        tokens = {
            name: create_token(principal=None, owner=user, name="demo")[1]
            for name, user in users.items()
        }
        make(users)
    return summary(tokens, password)


def make(users: Mapping[str, User]) -> None:
    """Create the team of these people and its repositories."""
    owner = Principal(next(iter(users.values())))
    team = access_to_team(owner, create_team(principal=owner, **STEPS["team"]))
    for name, role in STEPS["members"].items():
        add_member(access=team, user=users[name], role=Role(role))
    with imported(time.time()) as history:
        loader = Loader(team, users, history)
        for part in STEPS["repositories"]:
            for person, action, arguments in part["steps"]:
                loader.run(part["repo"], users[person], action, arguments)


def summary(tokens: Mapping[str, str], password: str) -> str:
    """A text with the people, their password and tokens, a page, and two commands to try."""
    address = site_url()
    scheme, _, host = address.partition("://")
    token = tokens["alice"]
    lines = ["The demo is loaded. Its people and their tokens, shown this once:"]
    lines += [f"    {name:6} {tokens[name]}  {PEOPLE[name]}" for name in PEOPLE]
    lines += [
        "Open in a browser, and sign in as any of them (the same password for all, shown once):"
    ]
    lines += [f"    {address}/teams/acme/tide-table", f"    password  {password}"]
    lines += ["Look around as alice:"]
    lines += [f"    curl -H 'Authorization: Bearer {token}' {address}/api/v1/teams/acme/repos"]
    lines += [f"    git clone {scheme}://alice:{token}@{host}/teams/acme/hello.git"]
    return "\n".join([*lines, ""])


FOLDER = Path(__file__).parent / "files"
BINARIES = ("curve.png", "new-moons.bin")
"""Files that the streams name by the marks `:1` and `:2`, because a text cannot contain them."""
LOADED = 1_800_000_000
"""The time of loading, by the dates in the streams."""
DATE = re.compile(rb"^((?:author|committer|tagger) .*> )(\d+)(?= \+0000$)", re.M)


@contextmanager
def imported(now: float) -> Iterator[GitRepo]:
    """A temporary repository with all commits of the streams, dated by `stream`."""
    with TemporaryDirectory() as folder:
        git = GitRepo(Path(folder) / "demo.git")
        git.create()
        git.git("fast-import", "--quiet", "--date-format=raw", stdin=stream(now))
        yield git


def stream(now: float) -> bytes:
    """All streams joined, with dates shortly before `now`."""
    shift = int(now) - LOADED
    blobs = [blob(mark, (FOLDER / name).read_bytes()) for mark, name in enumerate(BINARIES, 1)]
    texts = [path.read_bytes() for path in sorted(FOLDER.glob("*.fast-import"))]
    dated = (
        DATE.sub(lambda match: match[1] + b"%d" % (int(match[2]) + shift), text) for text in texts
    )
    return b"".join([*blobs, *dated])


def blob(mark: int, content: bytes) -> bytes:
    """The command of git-fast-import for a file with a mark."""
    return b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(content), content)


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
"""Called with the access of the person, and the arguments of `Loader.argument`."""


class Loader:
    """Carries out the steps by the actions of the API, which record all events.

    `repos` are the repositories created so far, by path.
    """

    def __init__(self, team: TeamAccess, users: Mapping[str, User], history: GitRepo) -> None:
        self.team = team
        self.users = users
        self.history = history
        self.repos: dict[str, Repo] = {}

    def run(self, path: str, user: User, action: str, arguments: Mapping[str, Any]) -> None:
        """Carry out one step in the repository at this path."""
        if action == "create_repo":
            self.repos[path] = repos.create_repo(access=self.team, **arguments)
        elif action == "create_fork":
            self.fork(self.repos[path], user)
        elif action == "push":
            self.push(self.repos[path], user, arguments)
        else:
            repo = self.repos[path]
            access = access_to(Principal(user), repo)
            read = {name: self.argument(repo, name, value) for name, value in arguments.items()}
            ACTIONS[action](access=access, **read)

    def argument(self, repo: Repo, name: str, value: Any) -> Any:
        """The object that an argument names; other arguments unchanged.

        Pulls and threads are named by number, replies as `thread/reply`, protections by branch.
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
        """Move refs like a push, with journal, rows and events. `refs` maps full names in the
        repository to full names in the imported history.
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
        """Create a fork for a person, and copy it as the worker would."""
        principal = Principal(user)
        into = access_to_user(principal, user)
        fork = repos.create_fork(access=access_to(principal, upstream), into=into)
        token = fork.take(status=ForkStatus.RUNNING, started_at=timezone.now())
        if token is not None:
            make_fork(fork, token)
        fork.refresh_from_db()
        if fork.repo is None:
            raise RuntimeError(f"The fork of the demo was not made: {fork.error}")
        self.repos[fork.repo.path] = Repo.objects.get(pk=fork.repo.pk)
