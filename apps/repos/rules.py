"""Rules about refs, pushes and protections.

Only as many people are read as needed to decide whether enough of them could approve.
docs/protections.md defines "enough".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.accounts.rules import check_no_bot
from apps.core.access import Level
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.events.kinds import Kind
from apps.events.record import Keys, Target
from apps.git.refs import new_name_problem, valid_branch_name
from apps.repos.access import access_to, level_on
from apps.repos.models import BRANCHES, TAGS, Protection, PushJournal, Repo, Visibility
from apps.teams.models import LEVEL_OF, Member, Role

ZERO = "0" * 40
WRITERS = [role for role in Role if LEVEL_OF[role] >= Level.WRITE]


@dataclass(frozen=True)
class RefMove:
    """One step of one ref. `actor` is None if unknown. `ZERO` means that the ref does not exist."""

    repo: Repo
    full_name: str
    old: str
    new: str
    actor: User | None

    @property
    def is_branch(self) -> bool:
        return self.full_name.startswith(BRANCHES)

    @property
    def is_pushed_branch(self) -> bool:
        """Whether it is a branch that exists before and after the step."""
        return self.is_branch and ZERO not in (self.old, self.new)

    @property
    def name(self) -> str:
        """The short name: `main`, `v1.0`."""
        return self.full_name.split("/", 2)[2]

    @property
    def kind(self) -> Kind:
        """The kind of event for this step. Moving a tag counts as creating it."""
        if self.new == ZERO:
            return Kind.BRANCH_DELETED if self.is_branch else Kind.TAG_DELETED
        if not self.is_branch:
            return Kind.TAG_CREATED
        return Kind.BRANCH_CREATED if self.old == ZERO else Kind.BRANCH_PUSHED

    def event_keys(self) -> Keys:
        return self.repo.event_keys()

    def event_target(self) -> Target:
        kind = "branch" if self.is_branch else "tag"
        return Target(kind, {"name": self.name}, web="", api="")

    def event_title(self) -> None:
        return None


def find_chain(
    start: str, end: str, steps: Sequence[PushJournal], made: Collection[int] = ()
) -> list[PushJournal] | None:
    """The chain of steps of a ref from `start` to `end`, each used once; None if there is none.

    `steps` are in the journal's order. A push writes its step while the ref is at the old value, so
    the chain leads through these values one after another: a ref that was seen elsewhere in between
    has moved away and back. No other loops are taken: git may have refused their steps.
    `made`: the ids of steps that git has reported as made. They are preferred, and loops that begin
    with them are inserted. The repository is locked meanwhile, so the time must grow slowly with
    the length of the journal.
    """
    chain = _chain_through_old_values(start, end, steps, made)
    if chain is None:
        chain = _shortest_chain(start, end, sorted(steps, key=lambda step: step.pk not in made))
    return None if chain is None else _with_loops(chain, start, steps, made)


def _chain_through_old_values(
    start: str, end: str, steps: Sequence[PushJournal], made: Collection[int]
) -> list[PushJournal] | None:
    """The shortest chain through the old value of each step, by steps that were written before.

    Values that cannot be reached are left out: a merge writes its step without a look at the ref.
    """
    chain: list[PushJournal] = []
    unused: list[PushJournal] = []
    value = start
    for step in steps:
        way = _shortest_chain(value, step.old, unused)
        if way:
            chain += way
            unused = [other for other in unused if other not in way]
            value = step.old
        unused.insert(0 if step.pk in made else len(unused), step)
    rest = _shortest_chain(value, end, unused)
    return None if rest is None else [*chain, *rest]


def _shortest_chain(start: str, end: str, steps: Sequence[PushJournal]) -> list[PushJournal] | None:
    """The shortest chain in any order. Of equal steps, the first is used."""
    chains: dict[str, list[PushJournal]] = {start: []}
    for value in (waiting := [start]):
        if end in chains:
            break
        for step in steps:
            if step.old == value and step.new not in chains:
                chains[step.new] = [*chains[value], step]
                waiting.append(step.new)
    return chains.get(end)


def _with_loops(
    chain: list[PushJournal], start: str, steps: Sequence[PushJournal], made: Collection[int]
) -> list[PushJournal]:
    """Insert the loops of other steps that begin with a step in `made` at a value of the chain."""
    unused = [step for step in steps if step not in chain]
    position = 0
    while position <= len(chain):
        value = chain[position - 1].new if position else start
        away = [step for step in unused if step.pk in made and step.old == value]
        ways = ((step, _shortest_chain(step.new, value, unused)) for step in away)
        loop = next(([step, *back] for step, back in ways if back is not None), [])
        chain = [*chain[:position], *loop, *chain[position:]]
        unused = [step for step in unused if step not in loop]
        position += not loop
    return chain


def branch_problem(name: str) -> str | None:
    """The reason why this cannot be the name of a branch; None if it can."""
    if has_controls(name):
        return f"A branch name may not contain {CONTROLS}."
    return None if valid_branch_name(name) else f"{quoted(name)} is not a valid branch name."


def check_default_branch(repo: Repo, branch: str) -> None:
    """422 for a branch that does not exist. An empty repository accepts any valid name, because its
    first push may create the branch.
    """
    if repo.branch_sha(branch) is not None:
        return
    problem = f"There is no branch {quoted(branch)}."
    if repo.is_empty:
        is_tag = repo.refs.filter(full_name__iexact=TAGS + branch).exists()
        reason = "a tag has this name" if is_tag else new_name_problem(branch)
        if reason is None:
            return
        problem = f"{quoted(branch)} cannot be created: {reason}."
    raise Invalid("validation_failed", f"default_branch: {problem}")


def pattern_problem(text: str) -> str | None:
    """The reason why this cannot be a protected branch or a glob of them; None if it can."""
    if has_controls(text):
        return branch_problem(text)
    if "**" in text:
        return '"**" is not supported: "*" matches anything but "/".'
    if valid_branch_name(text.replace("*", "x")):
        return None
    return f'{quoted(text)} is neither the name of a branch nor a pattern with "*".'


def names_branches(pattern: str) -> bool:
    """Whether tags may not have the names that this pattern protects. A pattern without a letter,
    as "*" is, matches all names, and would forbid all tags.
    """
    return pattern.strip("*/") != ""


def check_may_approve(repo: Repo, user: User) -> None:
    """422 unless the user is a person, active, and may read the repository."""
    check_no_bot(user, "username")
    check_may_report(repo, user)


def check_may_report(repo: Repo, user: User) -> None:
    """422 unless the user is active and may read the repository."""
    if not user.is_active:
        raise Invalid("validation_failed", f"username: {user.username} has been deactivated.")
    if access_to(Principal(user), repo).level < Level.READ:
        text = f"{user.username} has no access to {repo} and cannot approve there."
        raise Invalid("approver_lacks_access", text)


def reporters_named(repo: Repo, names: Sequence[str], present: Collection[str]) -> list[str]:
    """The usernames, as their owners write them, of people who may report statuses that count.

    422 `user_not_found`, and for people who are not among the present ones as `check_may_report`.
    """
    people = User.objects.filter(username_key__in=[name.lower() for name in names])
    by_key = {person.username_key: person for person in people}
    for name in names:
        person = by_key.get(name.lower())
        if person is None:
            raise Invalid("user_not_found", f"There is no user {quoted(name)}.")
        if person.username not in present:
            check_may_report(repo, person)
    return [*dict.fromkeys(by_key[name.lower()].username for name in names)]


@dataclass(frozen=True)
class Collaborators:
    """The ids of active people who may write to a repository or read it, at most `most` of each.
    Bots are among the readers, as they may open pulls, but not among the writers.

    Each property takes one query. The repository has its owner loaded.
    """

    repo: Repo
    most: int

    @classmethod
    def of(cls, repo: Repo, protections: Iterable[Protection], besides: int = 1) -> Self:
        """As many people as any of the protections requires, and `besides` more."""
        most = max((rule.required_approvals for rule in protections), default=0) + besides
        return cls(repo, most)

    @cached_property
    def writers(self) -> frozenset[int]:
        return self._with_roles(WRITERS, of_bots=False)

    @cached_property
    def readers(self) -> frozenset[int]:
        team = self.repo.owner_team
        closed = team is not None and not team.is_active
        if closed or self.repo.visibility == Visibility.PRIVATE:
            return self._with_roles([*Role])
        people = User.objects.filter(is_active=True).values_list("pk", flat=True)
        return frozenset(people[: self.most])

    def _with_roles(self, roles: list[Role], *, of_bots: bool = True) -> frozenset[int]:
        """The team's members with these roles, or the person who owns the repository, and staff."""
        active = User.objects.filter(is_active=True)
        own: QuerySet[Any, Any]
        if (team := self.repo.owner_team_id) is not None:
            members = Member.objects.filter(team=team, role__in=roles, user__is_active=True)
            if not of_bots:
                members = members.filter(user__is_bot=False)
            own = members.values_list("user_id")
        else:
            own = active.filter(repos=self.repo).values_list("pk")
        # Staff may be listed twice: to remove duplicates the database would have to sort all rows.
        rows = own.union(active.filter(is_staff=True).values_list("pk"), all=True)
        return frozenset(pk for (pk,) in rows[: 2 * self.most])


def could_approve(protection: Protection, collaborators: Collaborators) -> frozenset[int]:
    """The ids of people whose approval the protection counts: its approvers, which are loaded with
    `Approver.with_roles`, or, without any, the people who may write.
    """
    named: Any = protection.approvers.all()
    if not named:
        return collaborators.writers
    repo = collaborators.repo
    return frozenset(
        approver.user_id
        for approver in named
        if approver.user.is_active
        and not approver.user.is_bot
        and level_on(Principal(approver.user), repo, approver.role) >= Level.READ
    )


def is_satisfiable(protection: Protection, collaborators: Collaborators) -> bool:
    """Whether enough people could approve a pull of at least one person."""
    able, required = could_approve(protection, collaborators), protection.required_approvals
    if not required or len(able) > required:
        return True
    return len(able) == required and not collaborators.readers <= able


def is_satisfiable_without(
    protection: Protection, collaborators: Collaborators, people: Collection[int]
) -> bool:
    """Whether enough people besides these could approve.

    `collaborators` must have been read with `besides` of at least `len(people)`.
    """
    others = could_approve(protection, collaborators) - {*people}
    return len(others) >= protection.required_approvals
