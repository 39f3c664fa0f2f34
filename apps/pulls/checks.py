"""The statuses of a pull's head that the protections of its target require (docs/statuses.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import UUID

from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.pulls.models import Pull
from apps.repos.access import level_on
from apps.repos.models import Protection
from apps.repos.protection_rules import MISSING
from apps.statuses.models import CommitStatus, StatusState


@dataclass(frozen=True)
class Check:
    """A required status of the head. `state` is that of a status that counts, or `missing`; if only
    a status that does not count was reported, `counts` is False and the state is its state.
    """

    context: str
    state: str
    status_uuid: UUID | None
    counts: bool

    @property
    def is_met(self) -> bool:
        return self.counts and self.state == StatusState.SUCCESS


@dataclass(frozen=True)
class Checks:
    """The required statuses of a pull's head; one query, none if no status is required."""

    pull: Pull
    protections: Sequence[Protection]
    loaded: Sequence[CommitStatus] | None = None
    """The statuses of several heads, if the caller has read them; see `checks_of_all`."""

    @cached_property
    def required(self) -> list[Check]:
        """A check for each required context, by context. Of several protections that require the
        same, the first that it does not satisfy decides.
        """
        checks: dict[str, Check] = {}
        for protection in self.protections:
            for context in protection.required_statuses:
                if context not in checks or checks[context].is_met:
                    checks[context] = self._check(protection, context)
        return [checks[context] for context in sorted(checks)]

    @property
    def unmet(self) -> dict[str, str]:
        """Context -> state, of the required statuses that are no success that counts."""
        return {
            check.context: check.state if check.counts else MISSING
            for check in self.required
            if not check.is_met
        }

    @cached_property
    def _latest(self) -> list[CommitStatus]:
        """The latest status of each required context by each person, newest first."""
        if self.loaded is None:
            return _latest_of([self])
        head = self.pull.repo_id, self.pull.head_sha
        return [status for status in self.loaded if (status.repo_id, status.sha) == head]

    @property
    def contexts(self) -> set[str]:
        """The required contexts."""
        return {name for row in self.protections for name in row.required_statuses}

    def _check(self, protection: Protection, context: str) -> Check:
        reported = [status for status in self._latest if status.context == context]
        counting = [status for status in reported if self._counts(protection, status)]
        for status in (counting or reported)[:1]:
            return Check(context, status.state, status.uuid, bool(counting))
        return Check(context, MISSING, None, counts=False)

    def _counts(self, protection: Protection, status: CommitStatus) -> bool:
        """Whether the protection accepts statuses of the person who reported this one."""
        person, names = status.created_by, protection.status_reporters
        if names and (person.username not in names or person.pk == self.pull.thread.created_by_id):
            return False
        role: str | None = getattr(status, "role", None)
        level = level_on(Principal(person), self.pull.repo, role)
        return person.is_active and level >= Level.WRITE


def checks_of_all(pulls: Iterable[tuple[Pull, Sequence[Protection]]]) -> list[Checks]:
    """The required statuses of these pulls under these protections; one query for all of them, none
    if no status is required.
    """
    checks = [Checks(pull, protections) for pull, protections in pulls]
    loaded = _latest_of(checks)
    return [replace(one, loaded=loaded) for one in checks]


def _latest_of(checks: Iterable[Checks]) -> list[CommitStatus]:
    """The latest status of each required context by each person, newest first. With several heads
    also some of contexts that are required for another one.
    """
    requiring = [one for one in checks if one.contexts and one.pull.head_sha is not None]
    if not requiring:
        return []
    rows = CommitStatus.objects.filter(
        repo__in={one.pull.repo_id for one in requiring},
        sha__in={one.pull.head_sha for one in requiring},
        context__in={name for one in requiring for name in one.contexts},
    )
    latest = rows.latest_by("repo", "sha", "context", "created_by")
    return [*latest.with_roles().order_by("-pk")]
