"""`…/compare`: the commits and changes of a head that a base does not have."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.browse.comparison import compare as compare_ends
from apps.browse.comparison import find_ends
from apps.browse.names import pulls_of_code
from apps.core.errors import ApiError, NotFound
from apps.repos.access import RepoAccess
from apps.web.addresses import with_query
from apps.web.code import ref_menu, who_asks
from apps.web.commits import days_of
from apps.web.decorators import repo_page
from apps.web.diffs import Difference, shown_difference
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest


@repo_page()
def compare(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """A form for base and head, and their comparison, or the reason why there is none."""
    repo = access.repo
    base = request.GET.get("base") or repo.default_branch
    head = request.GET.get("head", "")
    comparison, error = comparison_or_reason(request, access, base, head) if head else (None, None)
    response = render_repo_page(
        request,
        access,
        "compare",
        tab="code",
        status=error.status if error else 200,
        base=base,
        head=head,
        menu=ref_menu(repo, base),
        comparison=comparison,
        error=error,
        pulls=pulls_of_code().open_numbers(repo, [head]).get(head, []) if comparison else [],
        new_pull=with_query(f"/{repo.path}/pulls/new", {"base": base, "head": head}),
    )
    for name, value in (error.headers if error else {}).items():
        response[name] = value
    return response


def comparison_context(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> dict[str, Any]:
    """The context of `_comparison.html`; the head may be in a fork. 404, 422, 503."""
    ends = find_ends(access, f"{base}...{head}", who_asks(request))
    comparison = compare_ends(ends, direct=False)
    difference = Difference(
        repo=ends.repo,
        source=ends.source,
        git=ends.git,
        old=comparison.start,
        new=comparison.head,
        files=comparison.changes.files,
        total=comparison.changes.total,
        additions=comparison.changes.additions,
        deletions=comparison.changes.deletions,
        address=f"/{ends.repo.path}/compare",
        cache_key=ends.question("rows"),
        throttle_key=ends.throttle_key,
    )
    return {
        "ahead": comparison.ahead,
        "behind": comparison.behind,
        "source": ends.source,
        "days": days_of(ends.source, comparison.commits, access.principal),
        "more_commits": comparison.ahead - len(comparison.commits),
        "diff": shown_difference(request, difference),
    }


def comparison_or_reason(
    request: PageRequest, access: RepoAccess, base: str, head: str
) -> tuple[dict[str, Any] | None, ApiError | None]:
    """The context of a comparison, or the error, for a page that shows more than the comparison."""
    if "..." in base or not base or not head:
        return None, NotFound("not_found", "Choose two branches, tags or commits.")
    try:
        return comparison_context(request, access, base, head), None
    except ApiError as error:
        return None, error
