"""`…/branches`: where each leads, and how far it is from the default branch."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.browse import refs
from apps.browse.names import pulls_of_code
from apps.browse.serializers.refs import branch_record
from apps.repos.access import RepoAccess
from apps.repos.models.ref import short_name
from apps.web.code import moment_of, who_asks
from apps.web.decorators import repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, page_number, page_of

BRANCHES = 30
"""Branches of a page: git counts for each how far it is from the default branch."""


@repo_page()
def branches(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The branches, pushed last first; `?search=` looks for a part of a name."""
    repo, search = access.repo, request.GET.get("search", "").replace("\0", "")
    rows: Any = refs.list_branches(repo)
    rows = rows.in_order("-updated_at")
    if search:
        rows = rows.search(search)
    page = page_of(request, page_number(request), rows, lambda ref: ref, size=BRANCHES)
    found = page["results"]
    patterns = refs.protected_patterns(repo)
    pulls = pulls_of_code().open_numbers(repo, [short_name(ref.full_name) for ref in found])
    far = refs.distances_from_default(repo, found, who_asks(request))
    page["results"] = [
        shown_branch(branch_record(ref, repo.default_branch, patterns, pulls), far.get(ref.sha))
        for ref in found
    ]
    return render_repo_page(request, access, "branches", tab="code", page=page, search=search)


def shown_branch(record: dict[str, Any], far: tuple[int, int] | None) -> dict[str, Any]:
    """What one line of the list needs; `far` is unknown where git cannot tell in time."""
    at = record["commit"]["committed_at"]
    ahead, behind = far if far else (None, None)
    committed = moment_of(at) if at else None
    return {**record, "ahead": ahead, "behind": behind, "committed_at": committed}
