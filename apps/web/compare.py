"""`…/compare`: the commits and changes that a head has and a base has not."""

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
    """A form for two names, and what lies between them. What is wrong with them stands above."""
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
    """What `_comparison.html` shows of a base and a head, which may be in a fork. 404, 422, 503."""
    ends = find_ends(access, f"{base}...{head}", who_asks(request))
    found = compare_ends(ends, direct=False)
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
        "days": days_of(found.commits, access.principal),
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
        return comparison_context(request, access, base, head), None
    except ApiError as error:
        return None, error
