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
from apps.repos.models import Protection, Ref, RefRow, Repo
from apps.repos.models.ref import short_name

PATIENCE = 5.0
"""Seconds that git may take to count the commits between a branch and the default branch."""
PATTERNS = Statement(
    lambda: Protection.objects.filter(repo=Parameter("repo")).values_list("branch")
)
REF_ORDERINGS = ("name", "-name", "-updated_at")


def list_branches(repo: int | Parameter) -> QuerySet[Any, Any]:
    """The branches of the repository with this id by name, as light rows."""
    return Ref.objects.filter(repo=repo).branches().in_order("name").rows()


BY_NAME = Statement(lambda: list_branches(Parameter("repo")), RefRow)


def list_tags(repo: Repo) -> QuerySet[Any, Any]:
    """A repository's tags, most recently pushed first, as light rows."""
    return repo.refs.tags().in_order("-updated_at").rows()


def get_ref(rows: QuerySet[Any, Any], full_name: str, noun: str) -> Any:
    """The row with this full name; 404. `noun` is "branch" or "tag"."""
    # PostgreSQL refuses texts with NUL.
    ref = None if "\0" in full_name else rows.filter(full_name=full_name).first()
    if ref is None:
        raise NotFound("not_found", f"There is no {noun} {quoted(short_name(full_name))} here.")
    return ref


def protected_patterns(repo: Repo) -> list[str]:
    """The patterns of a repository's protections."""
    return [branch for (branch,) in PATTERNS.all(repo=repo.pk)]


def protections_of(repo: Repo, branch: str) -> list[Protection]:
    """The protections of one branch, oldest first."""
    rows = repo.protections.order_by("created_at", "id")
    return [protection for protection in rows if protection.matches(branch)]


def ahead_and_behind(repo: Repo, sha: str) -> tuple[int | None, int | None]:
    """The numbers of commits that only a branch has, and that only the default branch has; cached.

    Both are None if there is no default branch or git cannot count in time.
    """
    default = repo.branch_sha(repo.default_branch)
    if default is None:
        return None, None
    if default == sha:
        return 0, 0

    def read() -> list[int]:
        with light_slots.slot():
            distance = repo.git.within(PATIENCE).distance(default, sha)
        return [distance.gained, distance.lost]

    try:
        ahead, behind = cached(repo, ("distance", default, sha), read)
    except (GitError, Invalid):  # `Invalid` if git is too slow
        return None, None
    return ahead, behind


def distances_from_default(
    repo: Repo, branches: Sequence[Any], throttle_key: str
) -> dict[str, tuple[int, int]]:
    """Commit of a branch -> as `ahead_and_behind`, with one question for all branches.

    If git cannot compare all in time, only branches at the default branch's commit are included.
    """
    default = repo.branch_sha(repo.default_branch)
    if default is None:
        return {}
    shas = [*dict.fromkeys(branch.sha for branch in branches if branch.sha != default)]

    def read() -> list[tuple[str, int, int]]:
        with heavy_slots.slot(throttle_key, waits=False):
            by_pair = distances(repo.git.within(PATIENCE), [(default, sha) for sha in shas])
        if len(by_pair) < len(shas):
            raise GitTimeout("not all branches could be compared")
        return [(sha, distance.gained, distance.lost) for (_, sha), distance in by_pair.items()]

    same = {default: (0, 0)}
    if not shas:
        return same
    try:
        answer = cached(repo, ("distances", default, *shas), read)
    except (GitError, ApiError):
        return same
    return same | {sha: (ahead, behind) for sha, ahead, behind in answer}


def whole_message(repo: Repo, sha: str) -> dict[str, Any]:
    """`message` and `message_truncated` of an annotated tag, whose row has only the beginning."""

    def read() -> tuple[str, bool] | None:
        with light_slots.slot():
            return tag_message(repo.git, sha)

    try:
        message = cached(repo, ("tag message", sha), read)
    except (GitError, Invalid):
        message = None
    return dict(zip(("message", "message_truncated"), message or (), strict=False))


class BranchFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(REF_ORDERINGS, help_text="The default is `name`.")


class TagFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(
        REF_ORDERINGS, help_text="The default is `-updated_at`: most recently pushed first."
    )
