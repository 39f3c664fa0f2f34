"""Comments on lines of the changes of a pull: below their lines, or at the head of their file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from apps.browse.names import path_in_tree, shown_path
from apps.core.access import Level
from apps.core.pagination import count_parameter, with_parameters
from apps.git.diff import FileChange
from apps.pulls.draft_reviews import DraftComment, DraftReview
from apps.pulls.draft_serializers import draft_comment_record
from apps.pulls.models import Pull, PullVersion
from apps.pulls.places import LinePlace
from apps.pulls.queries import comments_of
from apps.repos.access import RepoAccess
from apps.threads.anchors import Side
from apps.threads.models import ANCHORED_ROW, Reply, ReplyStatus
from apps.threads.queries import list_replies_below
from apps.threads.serializers import reply_record
from apps.web.conversations import with_html
from apps.web.diff_tables import Place
from apps.web.pulls import apply_address
from apps.web.responses import PageRequest
from apps.web.suggested_changes import add_suggestions
from apps.web.templatetags.anchors import anchor_of

COMMENTS_MAX = 1000
"""Comments of a pull that a page shows, and as many replies to them."""
COMMENTS = 100
"""Comments that a page shows whole, those of `?comments=`; each other one is a link."""
REASONS = {
    "changed": "the lines have changed since then",
    "file_deleted": "the file has been deleted since then",
    "binary": "the file is binary now",
    "too_large": "the file is too large now",
    "line_gone": "the lines no longer exist",
}


@dataclass
class Comments:
    """The comments of a pull on the files of a page, by the anchor of their file."""

    request: PageRequest
    access: RepoAccess
    pull: Pull
    context: dict[str, Any]
    """Further context of `_line_comment.html`."""
    by_row: dict[str, dict[str, list[dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """The comments that stand below a row, by its id."""
    at_head: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """Those whose lines are not among the current ones."""
    elsewhere: list[dict[str, Any]] = field(default_factory=list)
    """Those on files that the pull no longer changes."""
    loose_drafts: list[dict[str, Any]] = field(default_factory=list)
    """Draft comments on such files, and those that answer no comment of the page."""
    suggestion_count: int = 0
    """The number of suggestions that can be applied."""
    form: str = ""
    """The form for a comment, below the row `form_row`."""
    form_row: str = ""
    lines: Place | None = None
    """The marked lines, whose tools stand below the last one."""

    def places(self, anchor: str) -> list[Place]:
        """The places of the comments of a file."""
        return [*filter(None, map(Place.parse, self.by_row[anchor]))]

    def below(self, anchor: str) -> Mapping[str, SafeString]:
        """The HTML below rows of a file."""
        rows = {row: self.html(comments) for row, comments in self.by_row[anchor].items()}
        if self.form_row.startswith(f"{anchor}-"):
            html = rows.get(self.form_row, "") + self.form
            rows[self.form_row] = mark_safe(html)  # noqa: S308 - of templates
        if self.lines and self.lines.anchor == anchor:
            context = {**self.context, "lines": self.lines}
            tools = render_to_string("web/_lines_chosen.html", context, self.request)
            html = tools + rows.get(self.lines.end, "")
            rows[self.lines.end] = mark_safe(html)  # noqa: S308 - of templates
        return rows

    def head(self, anchor: str) -> SafeString:
        """The HTML at the head of a file: its outdated comments."""
        return self.html(self.at_head[anchor])

    def count(self, anchor: str) -> int:
        rows = self.by_row[anchor].values()
        return sum(map(len, rows)) + len(self.at_head[anchor])

    def html(self, comments: Sequence[dict[str, Any]]) -> SafeString:
        parts = [
            render_to_string(template_of(one), {**self.context, "comment": one}, self.request)
            for one in comments
        ]
        return mark_safe("".join(parts))  # noqa: S308 - of templates


def template_of(comment: dict[str, Any]) -> str:
    if "is_draft" in comment:
        return "web/_draft_comment.html"
    return "web/_closed_comment.html" if "link" in comment else "web/_line_comment.html"


def comments_for(
    request: PageRequest,
    access: RepoAccess,
    pull: Pull,
    version: PullVersion,
    files: Sequence[FileChange],
    draft: DraftReview | None,
) -> Comments:
    """The comments of a pull with their replies, and those of the reader's draft, on the files of a
    version. Three queries.
    """
    comments = Comments(request, access, pull, comment_context(access, pull))
    drafts = [draft_comment_record(one) for one in draft.comments.all()] if draft else []
    records = records_of(request, access, pull, drafts)
    comments.suggestion_count = add_suggestions(records)
    add_suggestions(drafts)
    comments.context["apply_address"] = apply_address(pull, access, comments.suggestion_count)
    by_path = {("n", file.path): file for file in files}
    by_path |= {("o", file.previous_path or file.path): file for file in files}
    by_number = {reply["number"]: one for one in records for reply in (one, *one["replies"])}
    for record in [*records, *(one | {"is_draft": True} for one in drafts)]:
        if record["anchor"] is None:
            parent = by_number.get(record["parent_reply_number"])
            of_parent = comments.loose_drafts if parent is None else parent["drafts"]
            of_parent.append(record)
        else:
            add_to_file(comments, record, version, by_path)
    return comments


def add_to_file(
    comments: Comments,
    record: dict[str, Any],
    version: PullVersion,
    by_path: Mapping[tuple[str, bytes], FileChange],
) -> None:
    """Put a comment below its lines, else to the head of its file, else beside the files. The lines
    of a draft comment have not been looked for in later versions.
    """
    anchor, is_draft = record["anchor"], "is_draft" in record
    current = anchor if is_draft else anchor["current"]
    side = "o" if anchor["side"] == Side.OLD else "n"
    where = current or anchor
    path = path_in_tree(where["path"], where.get("path_base64"))
    file = by_path.get((side, path))
    commit = version.merge_base_sha if side == "o" else version.head_sha
    record["words"] = words_of(anchor)
    record["reason"] = REASONS.get(anchor.get("outdated_reason") or "", "")
    record["file"] = shown_path(path)
    record["is_here"] = bool(file and current and current["commit_sha"] == commit)
    if file is None:
        record["is_elsewhere"] = True
        (comments.loose_drafts if is_draft else comments.elsewhere).append(record)
    elif record["is_here"]:
        row = f"{anchor_of(file.path)}-{side}{current['line']}"
        comments.by_row[anchor_of(file.path)][row].append(record)
    else:
        comments.at_head[anchor_of(file.path)].append(record)


def records_of(
    request: PageRequest, access: RepoAccess, pull: Pull, drafts: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The records of the comments, each with the records of the replies to it. Adds the HTML of all
    texts, also of those of the draft.
    """
    number, columns = pull.number, ANCHORED_ROW.values()
    rows = comments_of(pull).values_list(*columns)[:COMMENTS_MAX]
    records = [reply_record(row, number) for row in rows]
    by_number = {record["number"]: record for record in records}
    below = list_replies_below(pull.thread, by_number, COMMENTS_MAX)
    replies = [(root, reply_record(row, number)) for root, row in below]
    for record in records:
        record |= {"replies": [], "drafts": []}
    for root, reply in replies:
        by_number[root]["replies"].append(reply)
    close_others(request, records)
    whole = [record for record in records if "link" not in record]
    every = [*whole, *(reply for record in whole for reply in record["replies"])]
    texts = [*drafts, *(record for record in every if not record["is_deleted"])]
    managers = [Reply.objects, *([DraftComment.objects] if drafts else [])]
    with_html(request, access, texts, *managers, address=f"/{access.repo.path}/pulls/{number}")
    return records


def close_others(request: PageRequest, records: Sequence[dict[str, Any]]) -> None:
    """Set `link` of the comments that are on another page of them: the address that opens them."""
    number = count_parameter(request.GET, "comments", 1)
    gone = {"part": None, "comment": None, "reply": None}
    for index, record in enumerate(records):
        page = index // COMMENTS + 1
        if page != number:
            query = with_parameters(request.GET, **gone, comments=page)
            record["link"] = f"?{query}#comment-{record['number']}"


def words_of(anchor: dict[str, Any]) -> str:
    """The lines that a comment was made about, in words."""
    first, last = anchor["start_line"], anchor["line"]
    lines = f"line {last}" if first == last else f"lines {first} to {last}"
    of = " of the old file" if anchor["side"] == Side.OLD else ""
    return f"{lines}{of} at {anchor['commit_sha'][:7]}"


def comment_context(access: RepoAccess, pull: Pull) -> dict[str, Any]:
    may_change = access.principal.is_signed_in and access.is_writable
    is_author = access.principal.person_id == pull.thread.created_by_id
    return {
        "address": f"/{access.repo.path}/pulls/{pull.number}",
        "thread": {"web_url": f"/{access.repo.path}/threads/{pull.number}"},
        "may_comment": may_change,
        "may_resolve": may_change and (is_author or access.level >= Level.WRITE),
        "resolved": str(ReplyStatus.RESOLVED),
    }


def line_place(version: PullVersion, file: FileChange, place: Place) -> LinePlace:
    """The place on the page as one of the version."""
    lines = {"line": place.last, "start_line": place.first}
    if place.side == "o":
        path = file.previous_path or file.path
        return LinePlace(version.merge_base_sha or "", path, side=Side.OLD, **lines)
    return LinePlace(version.head_sha, file.path, side=Side.NEW, **lines)
