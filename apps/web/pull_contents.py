"""`…/pulls/<n>/commits` and `/files`: what a pull contains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpResponse

from apps.core.errors import ApiError
from apps.core.pagination import count_parameter
from apps.core.rows import values_of
from apps.git.run import GitError
from apps.pulls import contents
from apps.pulls.approval import readiness_of
from apps.pulls.models import PULL_ROW, Pull, PullVersion
from apps.pulls.queries import get_pull
from apps.pulls.serializers import pull_records
from apps.repos.access import RepoAccess
from apps.web.code import who_asks
from apps.web.commits import days_of
from apps.web.decorators import repo_page
from apps.web.diffs import Difference, shown_difference
from apps.web.frame import render_repo_page
from apps.web.responses import PageRequest
from apps.web.verdicts import verdict_of

INLINE_FILES, INLINE_ROWS = 20, 400
"""A pull with no more of either is shown on one page."""
MOST_VERSIONS = 50
"""Versions that are proposed in a menu, the newest."""


@repo_page()
def pull_commits(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The commits of a pull, oldest first."""
    found = get_pull(access.repo, number)
    version = contents.get_version(found, None)
    listed = contents.commits_of(version, who_asks(request)) if version else []
    return render_repo_page(
        request,
        access,
        "pull_commits",
        tab="pulls",
        **head_of_pull(access, found, "commits"),
        days=days_of(access.repo, listed, access.principal),
        left_out=(version.commit_count or 0) - len(listed) if version else 0,
    )


@repo_page()
def pull_files(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """What a pull changes; with `?from=` what has changed since that version of it."""
    found = get_pull(access.repo, number)
    version = contents.get_version(found, None)
    since = None
    if "from" in request.GET:
        since = contents.get_version(found, count_parameter(request.GET, "from", 1))
    difference = difference_of(request, version, since) if version else None
    versions = [*contents.list_versions(found).order_by("-version")[:MOST_VERSIONS]]
    return render_repo_page(
        request,
        access,
        "pull_files",
        tab="pulls",
        **head_of_pull(access, found, "files"),
        diff=difference and shown_difference(request, difference),
        since=since,
        is_rebased=bool(version and since and since.merge_base_sha != version.merge_base_sha),
        versions=versions[1:],
    )


def head_of_pull(access: RepoAccess, found: Pull, tab: str) -> dict[str, Any]:
    """What stands above each tab of a pull. Without its conditions where git cannot tell them."""
    [record] = pull_records([(values_of(found, PULL_ROW), access.repo)], access.principal, "")
    try:
        open_count = verdict_of(readiness_of(found), access)["open_count"]
    except ApiError:
        open_count = 0
    is_author = access.principal.person_id == found.thread.created_by_id
    return {"pull": record, "pull_tab": tab, "open_count": open_count, "is_author": is_author}


def difference_of(
    request: PageRequest, version: PullVersion, since: PullVersion | None
) -> Difference:
    """What a version changes, or how it differs from another one; 422, 503."""
    repo, who = version.pull.repo, who_asks(request)
    if since is None:
        listing = contents.files_of(version, who)
    else:
        listing = contents.files_between(since, version, who)
    counted = version if since is None else None
    return Difference(
        repo=repo,
        source=repo,
        git=repo.git,
        old=listing.old,
        new=listing.new,
        files=listing.files,
        total=listing.total,
        additions=counted.additions or 0 if counted else lines_of(listing, "additions"),
        deletions=counted.deletions or 0 if counted else lines_of(listing, "deletions"),
        address=f"/{repo.path}/pulls/{version.pull.number}/files",
        cache_key=(),
        who=who,
    )


def lines_of(listing: contents.Listing, kind: str) -> int:
    """How many lines were added, or deleted, in the files that are listed."""
    return sum(getattr(file, kind) or 0 for file in listing.files)


def inline_changes(request: PageRequest, found: Pull) -> dict[str, Any] | None:
    """The changes of a small pull, for the page of its conversation. None where there are more, or
    where git is busy, fails or cannot tell in time: there a link leads to all of them.
    """
    if not 0 < found.changed_files <= INLINE_FILES:
        return None
    if found.additions + found.deletions > INLINE_ROWS:
        return None
    try:
        version = contents.get_version(found, None, with_files=True)
        if version is None:
            return None
        difference = replace(difference_of(request, version, None), waits=False)
        diff = shown_difference(request, difference, is_paged=False)
    except (ApiError, GitError):
        return None
    return diff if diff["rows"] <= INLINE_ROWS else None
