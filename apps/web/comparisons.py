"""Two branches beside each other: their commits and differences, for several pages."""

from __future__ import annotations

from typing import Any

from apps.browse.comparison import compare, find_ends
from apps.core.errors import ApiError, NotFound
from apps.repos.access import RepoAccess
from apps.web.code import who_asks
from apps.web.commits import days_of
from apps.web.diffs import Difference, shown_difference
from apps.web.responses import PageRequest


def shown_comparison(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> dict[str, Any]:
    """What `_comparison.html` shows of a base and a head, which may be in a fork. 404, 422, 503."""
    ends = find_ends(access, f"{base}...{head}", who_asks(request))
    found = compare(ends, direct=False)
    difference = Difference(
        repo=ends.repo,
        source=ends.source,
        git=ends.git,
        old=found.start,
        new=found.head,
        files=found.changes.files,
        total=found.changes.total,
        additions=found.changes.additions,
        deletions=found.changes.deletions,
        address=f"/{ends.repo.path}/compare",
        cache_key=ends.question("rows"),
        who=ends.who,
    )
    return {
        "ahead": found.ahead,
        "behind": found.behind,
        "source": ends.source,
        "days": days_of(ends.source, found.commits, access.principal),
        "more_commits": found.ahead - len(found.commits),
        "diff": shown_difference(request, difference),
    }


def comparison_or_reason(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> tuple[dict[str, Any] | None, ApiError | None]:
    """The same, or why there is none: for a page that has more to show."""
    if "..." in base or not base or not head:
        return None, NotFound("not_found", "Choose two branches, tags or commits.")
    try:
        return shown_comparison(request, access, base, head), None
    except ApiError as error:
        return None, error
