"""`…/pulls/<n>/files`: the changes of a pull, with what their reader has viewed, and comments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString

from apps.core.errors import NotFound
from apps.core.pagination import count_parameter, with_parameters
from apps.git.diff import FileChange
from apps.pulls import actions, versions
from apps.pulls.draft_reviews import DraftComment, DraftReview, find_draft
from apps.pulls.models import Pull, PullVersion
from apps.pulls.places import LinePlace
from apps.pulls.queries import Progress, get_pull, progress_of
from apps.repos.access import RepoAccess
from apps.threads import actions as threads
from apps.threads.models import Reply, ReplyStatus
from apps.threads.queries import get_reply
from apps.web.code import who_asks
from apps.web.conversations import (
    REPLY_KINDS,
    CommentForm,
    LineReplyForm,
    ReviewForm,
    with_html,
)
from apps.web.decorators import POST, repo_page
from apps.web.diff_tables import Place
from apps.web.diffs import Difference, Reader, chosen_lines, shown_difference
from apps.web.file_tree import file_tree
from apps.web.frame import render_repo_page
from apps.web.line_comments import Comments, comments_for, line_place
from apps.web.pulls import MOST_VERSIONS, difference_of, expectations, pull_header
from apps.web.responses import PageRequest, redirect_to
from apps.web.suggested_changes import suggestion_block
from apps.web.templatetags.anchors import anchor_of

AT = "at"
"""The version that a form of the page has shown: a parameter of its action."""
KEPT = {"version", "from", "view", "w", "viewed", "open", "comments"}
"""Parameters that the form of the filter keeps."""
CHOSEN = ("lines", "lines_in", "lines_side", "lines_from", "lines_to")
"""Parameters of the marked lines."""
FORM_ID = 'id="say-line"'
SUGGEST = "suggest"
"""The parameter that begins a comment with a suggestion."""
DRAFT = "draft"
"""The name of the button that adds a comment to the person's draft review."""
Form = CommentForm | LineReplyForm


@dataclass(frozen=True)
class LineForm:
    """The form for a comment at a place, or for a reply to the comment `to`."""

    form: Form | None = None
    place: Place | None = None
    to: int | None = None


@repo_page()
def pull_files(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """The changes of a pull: of the newest version, or of `?version=`; with `?from=`, those since
    that version of it. `?part=` is the HTML of one file, for scripts.
    """
    pull = get_pull(access.repo, number)
    form: Form | None = None
    place, to = Place.parse(request.GET.get("comment", "")), None
    if "reply" in request.GET:
        to = count_parameter(request.GET, "reply", 1)
    if may_change(access) and to:
        form = LineReplyForm(request, unbound=True, kind=REPLY_KINDS[0])
    elif may_change(access) and place:
        form = CommentForm(request, unbound=True, kind="comment")
    return show_files(request, access, pull, LineForm(form, place, to))


def show_files(
    request: PageRequest, access: RepoAccess, pull: Pull, line_form: LineForm
) -> HttpResponse:
    """The tab, with a form if there is one."""
    version = versions.get_version(pull, version_of(request))
    since = versions.get_version(pull, of) if (of := number_of(request, "from")) else None
    progress = progress_of(pull, access.principal.person_id)
    draft, form = find_draft(pull, access.principal.person_id), line_form.form
    context: dict[str, Any] = {
        **basic_context(request, access, pull),
        "draft": draft,
        "version": version,
        "since": since,
        "is_newest": bool(version and version.version == pull.last_version),
    }
    if version is not None:
        difference = difference_of(version, since, who_asks(request))
        files = difference.changes.files
        opened = opened_form(request, access, version, line_form, files, has_draft=bool(draft))
        comments = comments_for(request, access, pull, version, files, draft)
        add_forms(request, comments, version, opened)
        context |= changes_context(request, access, difference, progress, comments)
        if "part" in request.GET:
            return render_repo_page(request, access, "_pull_file", tab="pulls", **context)
        if request.method != "POST":
            note_version(access, pull, version, progress)
    context |= {
        **versions_context(pull, version, since, progress),
        "status": form.status_code if form else 200,
        "headers": form.headers if form else {},
        "form": form,
        "review_form": review_form(request, version, draft),
    }
    header = pull_header(access, pull, "files")
    return render_repo_page(request, access, "pull_files", tab="pulls", **header, **context)


def versions_context(
    pull: Pull, version: PullVersion | None, since: PullVersion | None, progress: Progress
) -> dict[str, Any]:
    """The earlier versions, and the one that the reader has seen before this."""
    newest = [*versions.list_versions(pull).order_by("-version")[:MOST_VERSIONS]]
    return {
        "is_rebased": bool(version and since and since.merge_base_sha != version.merge_base_sha),
        "versions": [one for one in newest if not version or one["version"] < version.version],
        "unseen_since": unseen_since(version, progress),
    }


def number_of(request: PageRequest, name: str) -> int | None:
    """The number of a version in the query; 422."""
    return count_parameter(request.GET, name, 1) if name in request.GET else None


def version_of(request: PageRequest) -> int | None:
    """The version that the page shows; None for the newest. A form is shown again on its own."""
    return number_of(request, AT if request.method == "POST" else "version")


def may_change(access: RepoAccess) -> bool:
    return access.principal.is_signed_in and access.is_writable


def basic_context(request: PageRequest, access: RepoAccess, pull: Pull) -> dict[str, Any]:
    return {
        "address": f"/{access.repo.path}/pulls/{pull.number}",
        "may_mark": may_change(access),
        "query": page_query(request),
        "hides_viewed": request.GET.get("viewed") == "hide",
        "name": request.GET.get("name", ""),
        "kept_query": kept_query(request),
    }


def kept_query(request: PageRequest) -> list[tuple[str, str]]:
    """The names and values of the parameters that GET forms of the page keep."""
    lists = request.GET.lists()
    return [(name, value) for name, values in lists if name in KEPT for value in values]


def page_query(request: PageRequest, **changed: Any) -> str:
    """The query of this page without an open form, for the actions of its forms."""
    gone = dict.fromkeys((AT, "part", "comment", "reply", SUGGEST, *CHOSEN))
    return with_parameters(request.GET, **{**gone, **changed})


def opened_form(
    request: PageRequest,
    access: RepoAccess,
    version: PullVersion,
    line_form: LineForm,
    files: Sequence[FileChange],
    *,
    has_draft: bool,
) -> dict[str, Any]:
    """The HTML of the form, and the place or the reply to which it belongs."""
    form, place, to = line_form.form, line_form.place, line_form.to
    if form is None:
        return {"html": SafeString(""), "place": None, "to": None}
    block = "" if to or not place else block_of(version, place, files)
    address = f"/{access.repo.path}/pulls/{version.pull.number}"
    if block and SUGGEST in request.GET and not form.is_bound and not form.is_preview:
        form.initial = {**form.initial, "body": block, "kind": "suggestion"}
    if form.is_preview:
        text = str(form.initial["body"])[: form.fields["body"].max_length]
        [record] = with_html(request, access, [{"body": text}])
        form.preview = record["body_html"]
    query, at = page_query(request), page_query(request, **{AT: version.version})
    context = {
        "form": form,
        "place": place,
        "to": to,
        "has_draft": has_draft,
        "block": block,
        "suggest": f"{address}/files?{page_query(request, comment=place, suggest='yes')}",
        "action": f"{address}/comments/{f'{to}/reply' if to else place}?{at}",
        "cancel": f"{address}/files?{query}#{f'reply-{to}' if to else place}",
    }
    html = render_to_string("web/_line_form.html", context, request)
    return {"html": html, "place": place, "to": to}


def block_of(version: PullVersion, place: Place, files: Sequence[FileChange]) -> str:
    """A suggestion with the lines of a place, to be edited; "" if there can be none."""
    with suppress(NotFound):
        return suggestion_block(version, file_with(place.anchor, files), place)
    return ""


def add_forms(
    request: PageRequest, comments: Comments, version: PullVersion, opened: dict[str, Any]
) -> None:
    """Let the comments of the page have links to forms, and the open form."""
    comments.context |= {
        "line_reply": escape(f"?{with_parameters(request.GET, part=None, comment=None)}&reply="),
        "query": page_query(request),
        **opened,
        "version": version,
        "kept_query": kept_query(request),
    }
    comments.lines = chosen_lines(request.GET)
    comments.form = opened["html"]
    comments.form_row = opened["place"].end if opened["place"] and not opened["to"] else ""


def changes_context(
    request: PageRequest,
    access: RepoAccess,
    difference: Difference,
    progress: Progress,
    comments: Comments,
) -> dict[str, Any]:
    """The context of `_diff.html` and `_diff_file.html` with the tools of a reader."""
    reader = reader_of(request, access, progress, comments)
    diff = shown_difference(request, difference, reader=reader)
    hides = request.GET.get("viewed") == "hide"
    html = "".join(file["table"] + file["comments"] for file in diff["files"] if comments.form)
    return {
        "diff": diff,
        "tree": file_tree(diff["files"]),
        "viewed_count": sum(map(progress.has_viewed, difference.changes.files)),
        "other_viewed": with_parameters(request.GET, page=None, viewed=None if hides else "hide"),
        "elsewhere": comments.html(comments.elsewhere),
        "loose_drafts": comments.html(comments.loose_drafts),
        "suggestion_count": comments.suggestion_count,
        "apply_address": comments.context["apply_address"],
        "lost_form": "" if FORM_ID in html else comments.form,
    }


def reader_of(
    request: PageRequest, access: RepoAccess, progress: Progress, comments: Comments
) -> Reader:
    return Reader(
        has_viewed=progress.has_viewed,
        hides_viewed=request.GET.get("viewed") == "hide",
        may_mark=may_change(access),
        has_tools=True,
        places=comments.places,
        below=comments.below,
        head=comments.head,
        comment_count=comments.count,
    )


def note_version(access: RepoAccess, pull: Pull, version: PullVersion, progress: Progress) -> None:
    """Store that a signed-in person opens this version, unless they have seen a newer one."""
    if not access.principal.is_signed_in:
        return
    if progress.seen_version is None or progress.seen_version < version.version:
        actions.see_version(access=access, pull=pull, version=version.version)


def unseen_since(version: PullVersion | None, progress: Progress) -> int | None:
    """The version that the reader had opened before this one; None if there is none."""
    if version is None or progress.seen_version is None:
        return None
    is_new = progress.seen_version < version.version
    return progress.seen_version if is_new else progress.previous_version


def review_form(
    request: PageRequest, version: PullVersion | None, draft: DraftReview | None
) -> ReviewForm:
    initial: dict[str, Any] = {"status": "approved"}
    if version is not None:
        initial |= {**expectations(version.pull), "expected_head_sha": version.head_sha}
    if draft is not None:
        initial |= {"body": draft.body, "draft": draft.uuid}
    return ReviewForm(request, unbound=True, **initial)


@repo_page(methods=POST, throttle="pulls")
def set_viewed(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Mark a file as viewed or not, and go back to it. The buttons send its anchor."""
    pull = get_pull(access.repo, number)
    version = versions.version_with_head(pull, request.POST.get("head_sha") or None)
    is_viewed = "viewed" in request.POST
    anchor = str(request.POST.get("viewed" if is_viewed else "unviewed", ""))
    file = file_with(anchor, versions.files_of(version, who_asks(request)).files)
    actions.mark_file(access=access, pull=pull, file=file, is_viewed=is_viewed)
    return back_to(request, access, number, anchor, closed=anchor if is_viewed else "")


def file_with(anchor: str, files: Any) -> FileChange:
    """The file with this id on the page; 404."""
    for file in files:
        if anchor_of(file.path) == anchor:
            return file  # type: ignore[no-any-return] # of a listing
    raise NotFound("not_found", "This file is not among the changed files.")


def back_to(
    request: PageRequest,
    access: RepoAccess,
    number: int,
    target: str,
    *,
    opened: str = "",
    closed: str = "",
) -> HttpResponse:
    """303 to an element of the page that sent the form. `opened` and `closed`: anchors of files."""
    query = request.GET.copy()
    query.pop(AT, None)
    files = [one for one in query.getlist("open") if one not in {opened, closed}]
    query.setlist("open", [*files, *filter(None, [opened])])
    text = query.urlencode()
    address = f"/{access.repo.path}/pulls/{number}/files"
    return redirect_to(f"{address}?{text}#{target}" if text else f"{address}#{target}")


@repo_page(methods=POST, throttle="pulls")
def comment(request: PageRequest, access: RepoAccess, number: int, place: str) -> HttpResponse:
    """Comment on lines; if that is refused, show the changes with the form again."""
    pull, where = get_pull(access.repo, number), Place.parse(place)
    if where is None:
        raise NotFound("not_found", "There is no such line.")
    form = CommentForm(request)
    if form.is_valid():
        with form.refusals():
            version = versions.get_version(pull, number_of(request, AT))
            if version is None:
                raise NotFound("not_found", "This pull has no changes.")
            file = file_with(where.anchor, versions.files_of(version, who_asks(request)).files)
            line = line_place(version, file, where)
            send = draft_on_line if DRAFT in request.POST else actions.comment_on_line
            send(access=access, pull=pull, place=line, **form.cleaned_data)
            return back_to(request, access, number, where.end, opened=where.anchor)
    return show_files(request, access, pull, LineForm(form, where))


def draft_on_line(
    *, access: RepoAccess, pull: Pull, place: LinePlace, body: str, kind: str
) -> DraftComment:
    """Add a comment to the caller's draft, as `comment_on_line` writes one."""
    return actions.add_draft_comment(
        access=access,
        pull=pull,
        body=body,
        kind=kind,
        commit_sha=place.commit_sha,
        line=place.line,
        start_line=place.first,
        side=place.side,
        path=place.path.decode("utf-8", "surrogateescape"),
    )


@repo_page(methods=POST, throttle="threads")
def reply_to_comment(
    request: PageRequest, access: RepoAccess, number: int, to: int
) -> HttpResponse:
    """Reply to a comment on lines, and go back to it."""
    pull, form = get_pull(access.repo, number), LineReplyForm(request)
    answered = comment_of(access, pull, to)
    if form.is_valid():
        with form.refusals():
            if DRAFT in request.POST:
                drafted = actions.add_draft_comment(
                    access=access,
                    pull=pull,
                    parent_reply_number=answered.number,
                    **form.cleaned_data,
                )
                return back_to(request, access, number, f"draft-{drafted.uuid}")
            reply = threads.create_reply(
                access=access,
                thread=answered.thread,
                parent_reply_number=answered.number,
                **form.cleaned_data,
            )
            return back_to(request, access, number, f"reply-{reply.number}")
    return show_files(request, access, pull, LineForm(form, to=to))


@repo_page(methods=POST, throttle="threads")
def set_comment_status(
    request: PageRequest, access: RepoAccess, number: int, to: int
) -> HttpResponse:
    """Resolve a comment, or open it again."""
    reply = comment_of(access, get_pull(access.repo, number), to)
    status = ReplyStatus.RESOLVED if request.POST.get("status") == "resolved" else ReplyStatus.OPEN
    threads.update_reply(access=access, reply=reply, status=str(status))
    return back_to(request, access, number, f"reply-{reply.number}")


def comment_of(access: RepoAccess, pull: Pull, number: int) -> Reply:
    """A reply of the pull's thread; 404."""
    pull.thread.repo = access.repo
    return get_reply(pull.thread, number, shown=True)
