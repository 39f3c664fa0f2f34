"""Pure questions about refs, pushes and protections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apps.core.access import Level, check_level
from apps.core.errors import Invalid
from apps.core.json import quoted
from apps.events.kinds import Kind
from apps.events.record import Keys, Target
from apps.repos.git.repo import valid_branch_name
from apps.repos.models import BRANCHES, Repo

if TYPE_CHECKING:
    from apps.accounts.models import User

ZERO = "0" * 40


@dataclass(frozen=True)
class RefMove:
    """One step of one ref, by whom it is known (None: nobody explains it). ZERO: no ref."""

    repo: Repo
    full_name: str
    old: str
    new: str
    actor: User | None

    @property
    def is_branch(self) -> bool:
        return self.full_name.startswith(BRANCHES)

    @property
    def name(self) -> str:
        """The short name: `main`, `v1.0`."""
        return self.full_name.split("/", 2)[2]

    @property
    def kind(self) -> Kind:
        """The event that reports this step. A tag that is moved is made anew."""
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


@dataclass(frozen=True)
class Step:
    """A journal row as the chain sees it; `of` is whatever it stands for."""

    old: str
    new: str
    of: object


def longest_chain(start: str, end: str, steps: Sequence[Step]) -> list[Step] | None:
    """The most steps that lead from `start` to `end`, each used once; None when none do.

    The longest: a ref that was moved away and back has moved twice. Steps of pushes that git has
    not carried out lead past the end and are left alone.
    """
    best: list[Step] | None = [] if start == end else None
    tried = set()
    for place, step in enumerate(steps):
        if step.old != start or step.new in tried:
            continue
        tried.add(step.new)
        rest = longest_chain(step.new, end, [*steps[:place], *steps[place + 1 :]])
        if rest is not None and (best is None or len(rest) + 1 > len(best)):
            best = [step, *rest]
    return best


def pattern_problem(text: str) -> str | None:
    """Why this can be no branch to protect, exact or a glob; None when it can."""
    if "**" in text:
        return '"**" is not known here: "*" stands for anything but "/".'
    if valid_branch_name(text.replace("*", "x")):
        return None
    return f'{quoted(text)} is neither the name of a branch nor a pattern with "*".'


def check_may_approve(repo: Repo, user: User) -> None:
    """An approver must be able to read what they approve: 422 (behaviour.md §8.3)."""
    if not user.is_active:
        raise Invalid("validation_failed", f"username: {user.username} has been deactivated.")
    if repo.access(user) < Level.READ:
        text = f"{user.username} has no access to {repo}, and so cannot approve there."
        raise Invalid("approver_lacks_access", text)


def check_changeable(repo: Repo, actor: User) -> None:
    """What the API's door asks before an admin's change of a repository, for the staff's pages.

    Errors: 403 `team_inactive`, `role_required`, 409 `repo_archived`.
    """
    repo.check_open(actor, writing=True)
    check_level(repo, actor, Level.ADMIN)
    repo.check_writable()
