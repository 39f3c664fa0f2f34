"""The plan of an off-boarding: the rows that change, and those that the person leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import NOT_GONE, ApiToken, BrowserSession, Invite, User
from apps.accounts.queries import list_sessions
from apps.accounts.rules import check_no_bot
from apps.core.errors import Invalid
from apps.pulls.models import ACTIVE, Pull
from apps.repos.models import Protection, Repo
from apps.repos.rules import Collaborators, is_satisfiable_without
from apps.ssh.models import SshKey
from apps.ssh.queries import list_keys
from apps.teams.models import Member, Role
from apps.threads.models import Thread, ThreadKind, ThreadStatus

MOST = 100
"""Most rows that a plan names of each sort; `truncated` names the sorts with more."""
OWNERS = ("owner_team", "owner_user")


@dataclass(frozen=True)
class Plan:
    """The rows that change, then those that stay behind without their person."""

    user: User
    successor: User | None
    dry_run: bool
    tokens: list[ApiToken]
    sessions: list[BrowserSession]
    ssh_keys: list[SshKey]
    invites: list[Invite]
    memberships: list[Member]
    owned_alone: set[int]
    """The ids of teams without another active owner."""
    repos: list[Repo]
    approver_rules: list[tuple[Protection, bool]]
    """The protections whose approver the person is, and whether enough others could approve."""
    open_pulls: list[Pull]
    open_threads: list[Thread]

    @property
    def truncated(self) -> list[str]:
        """The names of the lists of which a record shows the first `MOST` rows."""
        lists = {field.name: getattr(self, field.name) for field in fields(self)}
        return [name for name, rows in lists.items() if isinstance(rows, list) and len(rows) > MOST]


def plan_for(user: User, successor: User | None = None, *, dry_run: bool = False) -> Plan:
    """Read what off-boarding changes now, and what is left behind, in a constant number of queries.

    Rows that change are complete; of others at most one more than `MOST` is read. 422 for a
    successor who is the person, deactivated, or a bot.
    """
    check_successor(user, successor)
    memberships = list(memberships_of(user))
    pulls = Pull.objects.filter(thread__created_by=user, status__in=ACTIVE, repo__deletion=None)
    threads = Thread.objects.existing().filter(created_by=user, repo__deletion=None)
    threads = threads.filter(status__in=(ThreadStatus.OPEN, ThreadStatus.IN_PROGRESS))
    threads = threads.exclude(kind=ThreadKind.PULL)
    return Plan(
        user=user,
        successor=successor,
        dry_run=dry_run,
        tokens=list(user.tokens.filter(revoked_at=None).order_by("pk")),
        sessions=list(list_sessions(user)),
        ssh_keys=list(list_keys(user)),
        invites=list(user.invites.filter(accepted_at=None, deleted_at=None).order_by("pk")),
        memberships=memberships,
        owned_alone=owned_alone(memberships),
        repos=first(user.repos.filter(NOT_GONE).select_related(*OWNERS).order_by("pk")),
        approver_rules=approver_rules(user),
        open_pulls=first(pulls.select_related("thread", *below("repo")).order_by("-pk")),
        open_threads=first(threads.select_related(*below("repo")).order_by("-pk")),
    )


def check_successor(user: User, successor: User | None) -> None:
    """422 for a successor who is the person, deactivated, or a bot."""
    if successor is not None and (successor.pk == user.pk or not successor.is_active):
        text = f"successor: {successor} is deactivated, or leaves too. Name somebody else."
        raise Invalid("validation_failed", text)
    if successor is not None:
        check_no_bot(successor, "successor")


def memberships_of(user: User) -> QuerySet[Member]:
    """The person's memberships in teams that are not deleted, in the order in which they are
    locked.
    """
    members = Member.objects.filter(user=user, team__deletion=None)
    return members.select_related("team", "user").order_by("team_id")


def owned_alone(memberships: Iterable[Member]) -> set[int]:
    """The ids of those teams that have no other active owner."""
    owned = {member.team_id: member for member in memberships if member.role == Role.OWNER}
    owners = Member.objects.filter(team__in=owned, role=Role.OWNER, user__is_active=True)
    others = owners.exclude(user__in={member.user_id for member in owned.values()})
    return owned.keys() - set(others.values_list("team_id", flat=True))


def approver_rules(user: User) -> list[tuple[Protection, bool]]:
    """The protections whose approver the person is. The rows stay: without its last approver, a
    protection would count the approvals of all people who may write.
    """
    rules = Protection.objects.filter(approvers__user=user, repo__deletion=None).with_people()
    rules = rules.select_related("created_by", *below("repo")).order_by("pk")
    return [
        (rule, is_satisfiable_without(rule, Collaborators.of(rule.repo, [rule]), {user.pk}))
        for rule in first(rules)
    ]


def below(repo: str) -> list[str]:
    """The query paths to a repository and its owners."""
    return [repo, *(f"{repo}__{owner}" for owner in OWNERS)]


def first(rows: QuerySet[Any]) -> list[Any]:
    return list(rows[: MOST + 1])
