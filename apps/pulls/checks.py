"""The statuses of a pull's head that the protections of its target require (docs/statuses.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        contexts = {name for row in self.protections for name in row.required_statuses}
        if not contexts or self.pull.head_sha is None:
            return []
        rows = CommitStatus.objects.of_commit(self.pull.repo, self.pull.head_sha)
        latest = rows.filter(context__in=sorted(contexts)).latest_by("context", "created_by")
        return [*latest.with_roles().order_by("-pk")]

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
