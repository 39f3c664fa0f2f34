"""Checks whether enough people could give the approvals that a protection requires.

Reads only as many people as needed to decide. docs/protections.md defines "enough".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.repos.access import level_on
from apps.repos.models import Approver, Protection, Repo, Visibility
from apps.teams.models import LEVEL_OF, Member, Role

WRITERS = [role for role in Role if LEVEL_OF[role] >= Level.WRITE]


@dataclass(frozen=True)
class RepoPeople:
    """The ids of active people who may write to a repository or read it, at most `most` of each.

    Each property takes one query. The repository has its owner loaded.
    """

    repo: Repo
    most: int

    @classmethod
    def of(cls, repo: Repo, protections: Iterable[Protection], besides: int = 1) -> Self:
        """As many people as any of the protections requires, and `besides` more."""
        return cls(
            repo, max((rule.required_approvals for rule in protections), default=0) + besides
        )

    @cached_property
    def writers(self) -> frozenset[int]:
        return self._with_roles(WRITERS)

    @cached_property
    def readers(self) -> frozenset[int]:
        team = self.repo.owner_team
        closed = team is not None and not team.is_active
        if closed or self.repo.visibility == Visibility.PRIVATE:
            return self._with_roles([*Role])
        people = User.objects.filter(is_active=True).values_list("pk", flat=True)
        return frozenset(people[: self.most])

    def _with_roles(self, roles: list[Role]) -> frozenset[int]:
        """The team's members with these roles, or the person who owns the repository, and staff."""
        active = User.objects.filter(is_active=True)
        own: QuerySet[Any, Any]
        if (team := self.repo.owner_team_id) is not None:
            members = Member.objects.filter(team=team, role__in=roles, user__is_active=True)
            own = members.values_list("user_id")
        else:
            own = active.filter(repos=self.repo).values_list("pk")
        # Staff may be listed twice: to remove duplicates the database would have to sort all rows.
        rows = own.union(active.filter(is_staff=True).values_list("pk"), all=True)
        return frozenset(pk for (pk,) in rows[: 2 * self.most])


def could_approve(protection: Protection, people: RepoPeople) -> frozenset[int]:
    """The ids of people whose approval the protection counts: its approvers or, without any, the
    people who may write.

    The approvers are loaded with `Approver.with_roles`.
    """
    named = protection.approvers.all()
    if not named:
        return people.writers
    return frozenset(
        approver.user_id
        for approver in named
        if approver.user.is_active and _may_read(approver, people.repo)
    )


def _may_read(approver: Approver, repo: Repo) -> bool:
    role = getattr(approver, "role", None)
    return level_on(Principal(approver.user), repo, role) >= Level.READ


def is_satisfiable(protection: Protection, people: RepoPeople) -> bool:
    """Whether enough people could approve a pull of at least one person."""
    able, required = could_approve(protection, people), protection.required_approvals
    if not required or len(able) > required:
        return True
    return len(able) == required and not people.readers <= able


def is_satisfiable_without(
    protection: Protection, people: RepoPeople, excluded: Collection[int]
) -> bool:
    """Whether enough people other than these could approve.

    `people` must have been read with `besides` of at least `len(excluded)`.
    """
    return len(could_approve(protection, people) - {*excluded}) >= protection.required_approvals
