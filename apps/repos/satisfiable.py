"""Whether enough people could give the approvals that a protection asks for.

Of people as many are read as can tell, however large the site is. What is meant by "enough":
docs/protections.md.
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
from apps.repos.models import Protection, Repo, Visibility
from apps.teams.models import LEVEL_OF, Member, Role

WRITERS = [role for role in Role if LEVEL_OF[role] >= Level.WRITE]


@dataclass(frozen=True)
class Crowd:
    """The ids of active people of a repository, `most` of each sort where there are as many.

    Takes one query for each sort, when it is asked for. The repository has its owner loaded.
    """

    repo: Repo
    most: int

    @classmethod
    def of(cls, repo: Repo, protections: Iterable[Protection], besides: int = 1) -> Self:
        """As many as each of the protections requires, and some `besides`."""
        return cls(repo, max((one.required_approvals for one in protections), default=0) + besides)

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
        """Those of the team with these roles, or the person who owns it; and staff."""
        active = User.objects.filter(is_active=True)
        own: QuerySet[Any, Any]
        if (team := self.repo.owner_team_id) is not None:
            members = Member.objects.filter(team=team, role__in=roles, user__is_active=True)
            own = members.values_list("user_id")
        else:
            own = active.filter(repos=self.repo).values_list("pk")
        # Who is both comes twice: the database would have to sort them all to know.
        found = own.union(active.filter(is_staff=True).values_list("pk"), all=True)
        return frozenset(pk for (pk,) in found[: 2 * self.most])


def could_approve(protection: Protection, crowd: Crowd) -> frozenset[int]:
    """The ids of those whose approval it would count; the crowd's where it names nobody.

    Its approvers are loaded as `Approver.with_roles` has them.
    """
    named = protection.approvers.all()
    if not named:
        return crowd.writers
    return frozenset(
        one.user_id
        for one in named
        if one.user.is_active
        and level_on(Principal(one.user), crowd.repo, getattr(one, "role", None)) >= Level.READ
    )


def is_satisfiable(protection: Protection, crowd: Crowd) -> bool:
    """Whether somebody could open a pull that enough others could approve."""
    able, required = could_approve(protection, crowd), protection.required_approvals
    if not required or len(able) > required:
        return True
    return len(able) == required and not crowd.readers <= able


def is_satisfiable_without(protection: Protection, crowd: Crowd, people: Collection[int]) -> bool:
    """Whether enough others than these could approve; the crowd is to be larger by as many."""
    return len(could_approve(protection, crowd) - {*people}) >= protection.required_approvals
