"""`…/branches` and `…/tags`: where each leads, and how far a branch is from the default branch."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.browse import refs
from apps.browse.names import pulls_of_code
from apps.browse.serializers.refs import branch_record, tag_record
from apps.repos.access import RepoAccess
from apps.repos.models import BRANCHES, TAGS, Repo
from apps.repos.models.ref import short_name
from apps.web.code import moment_of, who_asks
from apps.web.decorators import repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, page_number, page_of

BRANCH_ROWS = 30
"""Branches of a page: git counts for each how far it is from the default branch."""


@repo_page()
def branches(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The branches, pushed last first; `?search=` looks for a part of a name."""
    repo, search = access.repo, search_text(request)
    rows: Any = refs.list_branches(repo)
    rows = rows.in_order("-updated_at")
    if search:
        rows = rows.search(search)
    page = page_of(request, page_number(request), rows, size=BRANCH_ROWS)
    found = page["results"]
    patterns = refs.protected_patterns(repo)
    pulls = pulls_of_code().open_numbers(repo, [short_name(ref.full_name) for ref in found])
    far = refs.distances_from_default(repo, found, who_asks(request))
    page["results"] = [
        branch_item(branch_record(ref, repo.default_branch, patterns, pulls), far.get(ref.sha))
        for ref in found
    ]
    return render_repo_page(request, access, "branches", tab="code", page=page, search=search)


def branch_item(record: dict[str, Any], far: tuple[int, int] | None) -> dict[str, Any]:
    """What one line of the list needs; `far` is unknown where git cannot tell in time."""
    at = record["commit"]["committed_at"]
    ahead, behind = far if far else (None, None)
    committed = moment_of(at) if at else None
    return {**record, "ahead": ahead, "behind": behind, "committed_at": committed}


@repo_page()
def tags(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The tags, pushed last first; `?search=` looks for a part of a name."""
    search = search_text(request)
    rows: Any = refs.list_tags(access.repo)
    if search:
        rows = rows.search(search)
    page = page_of(request, page_number(request), rows, tag_item)
    name_refs(access.repo, page["results"])
    return render_repo_page(request, access, "tags", tab="code", page=page, search=search)


def tag_item(ref: Any) -> dict[str, Any]:
    """What one line of the list needs: the first paragraph of what it says, and when it was tagged,
    or else its commit was made.
    """
    record = tag_record(ref)
    at = (record["tagger"] or {}).get("date") or (record["commit"] or {}).get("committed_at")
    said = (record["message"] or "").strip().partition("\n\n")[0]
    return {**record, "said": said, "at": moment_of(at) if at else record["updated_at"]}


def name_refs(repo: Repo, tags: list[dict[str, Any]]) -> None:
    """Add what each is called in addresses, as `ref`: by its full name where the short one would
    mean a branch.
    """
    branches = repo.refs.filter(full_name__in=[BRANCHES + tag["name"] for tag in tags])
    taken = {*branches.values_list("full_name", flat=True)}
    for tag in tags:
        name = tag["name"]
        is_free = BRANCHES + name not in taken and not name.startswith("refs/")
        tag["ref"] = name if is_free else TAGS + name


def search_text(request: PageRequest) -> str:
    """The part of a name that is looked for."""
    return request.GET.get("search", "").replace("\0", "")
