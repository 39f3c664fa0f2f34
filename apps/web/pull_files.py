"""`…/pulls/<n>/files`: the changes of a pull, with what their reader has viewed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from apps.core.access import Level
from apps.core.errors import NotFound
from apps.core.pagination import count_parameter, with_parameters
from apps.git.diff import FileChange
from apps.pulls import actions, versions
from apps.pulls.models import Pull, PullVersion
from apps.pulls.queries import Progress, get_pull, progress_of
from apps.repos.access import RepoAccess
from apps.web.code import who_asks
from apps.web.conversations import ReviewForm
from apps.web.decorators import POST, repo_page
from apps.web.diffs import Difference, Reader, shown_difference
from apps.web.file_tree import file_tree
from apps.web.frame import render_repo_page
from apps.web.pulls import MOST_VERSIONS, difference_of, pull_header
from apps.web.responses import PageRequest, redirect_to
from apps.web.templatetags.anchors import anchor_of


@repo_page()
def pull_files(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The changes of a pull: of the newest version, or of `?version=`; with `?from=`, those since
    that version of it. `?part=` is the HTML of one file, for scripts.
    """
    pull = get_pull(access.repo, number)
    version = versions.get_version(pull, version_of(request, "version"))
    since = None
    if since_number := version_of(request, "from"):
        since = versions.get_version(pull, since_number)
    difference = difference_of(version, since, who_asks(request)) if version else None
    progress = progress_of(pull, access.principal.person_id)
    is_newest = bool(version and version.version == pull.last_version)
    context = files_context(request, access, pull, difference, progress)
    context |= {"since": since, "version": version, "is_newest": is_newest}
    if "part" in request.GET and difference:
        return render_repo_page(request, access, "_pull_file", tab="pulls", **context)
    note_version(access, pull, version, progress)
    newest = [*versions.list_versions(pull).order_by("-version")[:MOST_VERSIONS]]
    return render_repo_page(
        request,
        access,
        "pull_files",
        tab="pulls",
        **pull_header(access, pull, "files"),
        **context,
        is_rebased=bool(version and since and since.merge_base_sha != version.merge_base_sha),
        versions=[one for one in newest if not version or one["version"] < version.version],
        unseen_since=unseen_since(version, progress),
        review_form=review_form(request, version),
    )


def version_of(request: PageRequest, name: str) -> int | None:
    """The number of a version in the query; 422."""
    return count_parameter(request.GET, name, 1) if name in request.GET else None


def files_context(
    request: PageRequest,
    access: RepoAccess,
    pull: Pull,
    difference: Difference | None,
    progress: Progress,
) -> dict[str, Any]:
    """The context of `_diff.html` and `_diff_file.html` with the tools of a reader."""
    may_change = access.principal.is_signed_in and access.is_writable
    hides_viewed = request.GET.get("viewed") == "hide"
    context: dict[str, Any] = {
        "address": f"/{access.repo.path}/pulls/{pull.number}",
        "may_mark": may_change,
        "query": with_parameters(request.GET, part=None),
        "hides_viewed": hides_viewed,
        "name": request.GET.get("name", ""),
    }
    if difference is None:
        return {**context, "diff": None}
    reader = Reader(
        has_viewed=progress.has_viewed,
        hides_viewed=hides_viewed,
        may_mark=may_change,
        has_tools=True,
    )
    diff = shown_difference(request, difference, reader=reader)
    viewed = sum(map(progress.has_viewed, difference.changes.files))
    return {
        **context,
        "diff": diff,
        "viewed_count": viewed,
        "tree": file_tree(diff["files"]),
        "kept_query": [
            (name, value)
            for name, values in request.GET.lists()
            if name in {"version", "from", "view", "w", "viewed"}
            for value in values[-1:]
        ],
        "other_viewed": with_parameters(
            request.GET, page=None, viewed=None if hides_viewed else "hide"
        ),
    }


def note_version(
    access: RepoAccess, pull: Pull, version: PullVersion | None, progress: Progress
) -> None:
    """Store that a signed-in person opens this version, unless they have seen a newer one."""
    if version is None or not access.principal.is_signed_in:
        return
    if progress.seen_version is None or progress.seen_version < version.version:
        actions.see_version(access=access, pull=pull, version=version.version)


def unseen_since(version: PullVersion | None, progress: Progress) -> int | None:
    """The version that the reader had opened before this one; None if there is none."""
    if version is None or progress.seen_version is None:
        return None
    is_new = progress.seen_version < version.version
    return progress.seen_version if is_new else progress.previous_version


def review_form(request: PageRequest, version: PullVersion | None) -> ReviewForm:
    head = version.head_sha if version else ""
    return ReviewForm(request, unbound=True, status="approved", expected_head_sha=head)


@repo_page(Level.READ, methods=POST, throttle="pulls")
def set_viewed(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Mark a file as viewed or not, and go back to it. The buttons send its anchor."""
    pull = get_pull(access.repo, number)
    version = versions.version_with_head(pull, request.POST.get("head_sha") or None)
    is_viewed = "viewed" in request.POST
    anchor = str(request.POST.get("viewed" if is_viewed else "unviewed", ""))
    file = file_with(anchor, versions.files_of(version, who_asks(request)).files)
    actions.set_viewed(access=access, pull=pull, file=file, is_viewed=is_viewed)
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    return redirect_to(f"/{access.repo.path}/pulls/{number}/files{query}#{anchor}")


def file_with(anchor: str, files: Any) -> FileChange:
    """The file with this id on the page; 404."""
    for file in files:
        if anchor_of(file.path) == anchor:
            return file  # type: ignore[no-any-return] # of a listing
    raise NotFound("not_found", "This file is not among the changed files.")
