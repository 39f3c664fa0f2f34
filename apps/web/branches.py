"""`…/branches` and `…/tags`, and how far each branch is from the default branch."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.browse import refs
from apps.browse.names import pulls_of_code
from apps.browse.serializers import branch_record, tag_record
from apps.repos.access import RepoAccess
from apps.repos.models import BRANCHES, TAGS, Repo
from apps.repos.models.ref import short_name
from apps.web.code import moment_of, who_asks
from apps.web.decorators import repo_page
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest, page_number, page_of

BRANCH_ROWS = 30
"""Branches per page: for each, git counts the commits ahead of and behind the default branch."""


@repo_page()
def branches(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The branches, most recently pushed first; `?search=` filters by a part of the name."""
    repo, search = access.repo, search_text(request)
    rows: Any = refs.list_branches(repo)
    rows = rows.in_order("-updated_at")
    if search:
        rows = rows.search(search)
    page = page_of(request, page_number(request), rows, size=BRANCH_ROWS)
    rows_of_page = page["results"]
    patterns = refs.protected_patterns(repo)
    pulls = pulls_of_code().open_numbers(repo, [short_name(ref.full_name) for ref in rows_of_page])
    distances = refs.distances_from_default(repo, rows_of_page, who_asks(request))
    page["results"] = [
        branch_item(
            branch_record(ref, repo.default_branch, patterns, pulls), distances.get(ref.sha)
        )
        for ref in rows_of_page
    ]
    return render_repo_page(request, access, "branches", tab="code", page=page, search=search)


def branch_item(record: dict[str, Any], distance: tuple[int, int] | None) -> dict[str, Any]:
    """An item of the list; `distance` is None if git did not tell it in time."""
    ahead, behind = distance or (None, None)
    return {**record, "ahead": ahead, "behind": behind}


@repo_page()
def tags(request: PageRequest, access: RepoAccess) -> HttpResponse:
    """The tags, most recently pushed first; `?search=` filters by a part of the name."""
    search = search_text(request)
    rows: Any = refs.list_tags(access.repo)
    if search:
        rows = rows.search(search)
    page = page_of(request, page_number(request), rows, tag_item)
    name_refs(access.repo, page["results"])
    return render_repo_page(request, access, "tags", tab="code", page=page, search=search)


def tag_item(ref: Any) -> dict[str, Any]:
    """An item of the list, with the first paragraph of the tag's message, and the date of the tag
    or else of its commit.
    """
    record = tag_record(ref)
    at = (record["tagger"] or {}).get("date") or (record["commit"] or {}).get("committed_at")
    summary = (record["message"] or "").strip().partition("\n\n")[0]
    return {**record, "summary": summary, "at": moment_of(at) if at else record["updated_at"]}


def name_refs(repo: Repo, tags: list[dict[str, Any]]) -> None:
    """Add to each tag its name in addresses, as `ref`: the full name if the short one is also that
    of a branch.
    """
    branches = repo.refs.filter(full_name__in=[BRANCHES + tag["name"] for tag in tags])
    taken = {*branches.values_list("full_name", flat=True)}
    for tag in tags:
        name = tag["name"]
        is_free = BRANCHES + name not in taken and not name.startswith("refs/")
        tag["ref"] = name if is_free else TAGS + name


def search_text(request: PageRequest) -> str:
    """The value of `?search=`."""
    return request.GET.get("search", "").replace("\0", "")
