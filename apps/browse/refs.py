"""Branches and tags: their rows, filters, and distances from the default branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from apps.browse.cache import cached
from apps.browse.read_slots import heavy_slots, light_slots
from apps.core.errors import ApiError, Invalid, NotFound
from apps.core.filters import OrderingFilter, SearchFilter, StrictFilterSet
from apps.core.json import quoted
from apps.core.statements import Parameter, Statement
from apps.git.history import distances
from apps.git.run import GitError, GitTimeout
from apps.git.tips import tag_message
from apps.repos.models import Protection, Repo
from apps.repos.models.ref import short_name

PATIENCE = 5.0
"""Seconds that git has to count how far a branch is from the default branch."""
PATTERNS = Statement(
    lambda: Protection.objects.filter(repo=Parameter("repo")).values_list("branch")
)


def list_branches(repo: Repo) -> QuerySet[Any, Any]:
    """The branches by name, as light rows."""
    return repo.refs.branches().in_order("name").rows()


def list_tags(repo: Repo) -> QuerySet[Any, Any]:
    """The tags, what was pushed last first, as light rows."""
    return repo.refs.tags().in_order("-updated_at").rows()


def get_ref(rows: QuerySet[Any, Any], full_name: str, what: str) -> Any:
    """One of these rows; 404. `what`: a branch or a tag."""
    ref = None
    if "\0" not in full_name:  # which PostgreSQL would not compare with anything
        ref = rows.filter(full_name=full_name).first()
    if ref is None:
        text = f"There is no {what} {quoted(short_name(full_name))} here."
        raise NotFound("not_found", text)
    return ref


def protected_patterns(repo: Repo) -> list[str]:
    """The patterns of the branches that are protected."""
    return [branch for (branch,) in PATTERNS.all(repo=repo.pk)]


def protections_of(repo: Repo, branch: str) -> list[Protection]:
    """The protections of one branch, oldest first."""
    rows = repo.protections.order_by("created_at", "id")
    return [one for one in rows if one.matches(branch)]


def ahead_and_behind(repo: Repo, ref: Any) -> tuple[int | None, int | None]:
    """How many commits a branch has that the default branch has not, and the other way round.

    None for both where there is no default branch, or git cannot tell in time.
    """
    default = repo.branch_sha(repo.default_branch)
    if default is None:
        return None, None
    if default == ref.sha:
        return 0, 0

    def ask() -> list[int]:
        with light_slots.slot():
            distance = repo.git.within(PATIENCE).distance(default, ref.sha)
        return [distance.gained, distance.lost]

    try:
        ahead, behind = cached(repo, ("distance", default, ref.sha), ask)
    except (GitError, Invalid):  # `cached` says by the second that git is too slow
        return None, None
    return ahead, behind


def distances_from_default(
    repo: Repo, branches: Sequence[Any], who: str
) -> dict[str, tuple[int, int]]:
    """Commit of a branch -> how many commits it has that the default branch has not, and the other
    way round; one question for all. Those that git cannot compare in time are left out.
    """
    default = repo.branch_sha(repo.default_branch)
    if default is None:
        return {}
    shas = [*dict.fromkeys(one.sha for one in branches if one.sha != default)]

    def ask() -> list[tuple[str, int, int]]:
        with heavy_slots.slot(who, waits=False):
            found = distances(repo.git.within(PATIENCE), [(default, sha) for sha in shas])
        if len(found) < len(shas):
            raise GitTimeout("not all branches could be compared")
        return [(new, one.gained, one.lost) for (_, new), one in found.items()]

    same = {default: (0, 0)}
    if not shas:
        return same
    try:
        answer = cached(repo, ("distances", default, *shas), ask)
    except (GitError, ApiError):
        return same
    return same | {sha: (ahead, behind) for sha, ahead, behind in answer}


def whole_message(repo: Repo, ref: Any) -> dict[str, Any]:
    """`message` and `message_truncated` of an annotated tag of which the row has the beginning."""

    def ask() -> tuple[str, bool] | None:
        with light_slots.slot():
            return tag_message(repo.git, ref.sha)

    try:
        found = cached(repo, ("tag message", ref.sha), ask)
    except (GitError, Invalid):
        found = None
    return dict(zip(("message", "message_truncated"), found or (), strict=False))


REF_ORDERINGS = ("name", "-name", "-updated_at")


class BranchFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(REF_ORDERINGS, help_text="The default is `name`.")


class TagFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(
        REF_ORDERINGS, help_text="The default is `-updated_at`: what was pushed last comes first."
    )
