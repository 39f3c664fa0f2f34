"""Applying suggested changes: a commit on the source branch of a pull, as a push by the caller."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from django.utils import timezone

from apps.browse.names import quick
from apps.core.access import Level
from apps.core.controls import without_controls
from apps.core.errors import Conflict, Invalid
from apps.core.locks import lock
from apps.core.lookup import Missing
from apps.core.transactions import final_transaction
from apps.events.kinds import Kind
from apps.events.models import Event
from apps.events.record import Change, record_all
from apps.git.lines import Lines, Outdated, find_lines
from apps.git.merge import new_commit
from apps.git.repo import GitRepo
from apps.git.tree import file_at
from apps.git.write import NewFile, NewObject, change_tree, store
from apps.pulls import rules
from apps.pulls.heads import access_to_source
from apps.pulls.models import Pull
from apps.pulls.source_branch import check_source, check_still_active, reporting_git
from apps.pulls.suggestions import Edit, edited, overlap, suggestion_in
from apps.repos.access import RepoAccess
from apps.repos.branches import move_branch
from apps.repos.pushes import settle
from apps.threads.anchors import Side
from apps.threads.models import Reply, ReplyStatus

FILE_MAX = 1024 * 1024
"""Most bytes of a file: those of files that can be commented."""
SECONDS = 10.0
"""Seconds in which git has to find the lines of all suggestions together."""
MOST_PUSHES = 20
"""Most pushes in which a repeated request looks for its own commit."""
TIMES = re.compile(rb"^((?:author|committer) .*>) \d+ [+-]\d{4}$", re.MULTILINE)
SUBJECT_MAX = 200
"""Most characters of a default message."""


@dataclass(frozen=True)
class Request:
    """The suggestions to apply, and how."""

    by: RepoAccess
    """The access to the repository of the source."""
    pull: Pull
    replies: list[Reply]
    message: str | None


def apply_suggestions(
    *,
    access: RepoAccess,
    pull: Pull,
    comments: Sequence[int],
    message: str | None = None,
    expected_head_sha: str | None = None,
    asked_since: dt.datetime | None = None,
) -> str:
    """Apply the suggestions in comments with these numbers by one commit on the source branch, and
    resolve the comments; returns the commit. The authors of the comments become its co-authors.

    Requires read access here, and write access to the repository of the source. `asked_since`: the
    time of the caller's first request, if its process may have died; the commit that it has made
    counts as this one. Errors: 404 for a comment; 409 `pull_already_merged`, `pull_closed`,
    `branch_missing`, `head_changed`, `suggestion_outdated`, `suggestions_overlap`,
    `nothing_to_commit`, and those of `move_branch`; 422 `not_a_suggestion`; 503 if git fails.
    """
    access.require_change(Level.READ)
    access.check_holds(pull)
    source = access_to_source(access, pull)
    pull.thread.repo = access.repo
    request = Request(source, pull, _replies(pull, comments), message)
    with reporting_git(pull):
        made = asked_since and _made_since(request, asked_since)
        if made:
            _resolve_later(request)
        else:
            rules.check_active(pull)
            head = check_source(pull, pull.tip_refs()[0])
            rules.check_head(head, expected_head_sha)
            made = _commit(request, head)
    pull.refresh_from_db()
    return made


def _replies(pull: Pull, numbers: Sequence[int]) -> list[Reply]:
    """The comments with these numbers, each once, by number; 404."""
    rows = Reply.objects.filter(thread=pull.thread_id, number__in=numbers, anchor__isnull=False)
    replies = [*rows.select_related("anchor", "created_by").order_by("number")]
    missing = {*numbers} - {reply.number for reply in replies}
    if missing:
        raise Missing("comment on lines", min(missing), f"pull {pull.number}")
    for reply in replies:
        reply.thread = pull.thread
    return replies


def _commit(request: Request, head: str) -> str:
    """Write the commit, move the branch to it, and resolve the comments."""
    objects = _objects(request, head, timezone.now())
    store(request.by.repo.git, objects)
    bodies = [reply.body for reply in request.replies]
    move_branch(
        access=request.by,
        branch=request.pull.source_branch,
        old=head,
        new=objects[-1].sha,
        check=partial(_lock_comments, request, bodies),
        write=lambda: record_all(_resolve(request)),
    )
    return objects[-1].sha


def _objects(request: Request, head: str, when: dt.datetime) -> list[NewObject]:
    """The objects of the commit, which is the last."""
    git = request.pull.repo.git.within(SECONDS)
    with quick():
        edits = [_edit_of(git, reply, head) for reply in request.replies]
        if overlap(edits):
            text = "Two of these suggestions change the same lines. Apply them one after the other."
            raise Conflict("suggestions_overlap", text)
        files = _new_files(git, head, edits)
        if not files:
            raise Conflict("nothing_to_commit", "The lines are as suggested already.")
        tree, objects = change_tree(request.by.repo.git, head, files)
    authors = {reply.created_by for reply in request.replies} - {request.by.user}
    content = new_commit(
        tree,
        head,
        person=rules.signature(request.by.user),
        message=request.message or _default_message(edits),
        others=map(rules.signature, sorted(authors, key=lambda author: author.pk)),
        when=when,
    )
    return [*objects, NewObject("commit", content)]


def _edit_of(git: GitRepo, reply: Reply, head: str) -> Edit:
    """The edit that a comment suggests, at the place of its lines in the head; 422, 409."""
    anchor, lines = reply.anchor, suggestion_in(reply.body)
    if lines is None:
        text = f"Comment {reply.number} does not have exactly one suggestion."
        raise Invalid("not_a_suggestion", text)
    if anchor.side != Side.NEW:
        text = f"Comment {reply.number} is on lines that the pull removes."
        raise Invalid("not_a_suggestion", text)
    outcome = find_lines(git, anchor.commit_sha, head, anchor.lines)
    if isinstance(outcome, Outdated):
        reason = str(outcome).replace("_", " ")
        text = f"The lines of comment {reply.number} are not in the head any more: {reason}."
        raise Conflict("suggestion_outdated", text)
    return Edit(outcome, lines)


def _new_files(git: GitRepo, head: str, edits: Sequence[Edit]) -> dict[bytes, NewFile | None]:
    """The files that the edits change, by path; 422 for lines that are not UTF-8."""
    by_path = defaultdict[bytes, list[Edit]](list)
    for edit in edits:
        by_path[edit.place.path].append(edit)
    files: dict[bytes, NewFile | None] = {}
    for path, of_file in by_path.items():
        old = file_at(git, head, path, most=FILE_MAX, start=0).content
        for edit in of_file:
            _check_text(old, edit.place)
        new = edited(old, of_file)
        if new != old:
            files[path] = NewFile(new)
    return files


def _check_text(content: bytes, place: Lines) -> None:
    lines = content.split(b"\n")[place.start - 1 : place.end]
    try:
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        text = "These lines are not UTF-8, so that no comment can show them as they are."
        raise Invalid("not_a_suggestion", text) from None


def _default_message(edits: Sequence[Edit]) -> str:
    paths = sorted({edit.place.path.decode("utf-8", "replace") for edit in edits})
    count = "suggestion" if len(edits) == 1 else f"{len(edits)} suggestions"
    files = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    return without_controls(f"Apply {count} to {files}")[:SUBJECT_MAX]


def _lock_comments(request: Request, bodies: Sequence[str]) -> None:
    """409 if the pull is not active any more, or a comment has been edited or deleted meanwhile.
    Locks the pull, its thread and the comments.
    """
    check_still_active(request.pull)
    lock(request.pull.thread)
    for reply, body in zip(request.replies, bodies, strict=True):
        lock(reply)
        if reply.body != body:
            text = f"Comment {reply.number} has been edited meanwhile."
            raise Conflict("suggestion_outdated", text)


def _resolve(request: Request) -> list[Change]:
    """Resolve the comments, which are locked; return the events."""
    events = []
    for reply in request.replies:
        if changed := reply.revise(by=request.by.user, status=ReplyStatus.RESOLVED.value):
            data = {"changed": changed}
            events.append(Change(Kind.REPLY_UPDATED, request.by.user, reply, data))
    return events


@final_transaction
def _resolve_later(request: Request) -> None:
    """Resolve the comments of a commit whose process died before it did."""
    lock(request.pull.thread)
    for reply in request.replies:
        lock(reply)
    record_all(_resolve(request))


def _made_since(request: Request, moment: dt.datetime) -> str | None:
    """The commit of the same request that the caller has pushed since then; None if there is none.
    Writes the rows of a push whose process died.
    """
    repo = request.by.repo
    settle(repo=repo, push=uuid4())
    pushes = Event.objects.filter(
        kind=Kind.BRANCH_PUSHED, repo_id=repo.pk, actor=request.by.user, created_at__gte=moment
    )
    for event in pushes.order_by("-id")[:MOST_PUSHES]:
        before, after = event.data["before"], event.data["after"]
        if event.data.get("forced") is False and _is_commit_of(request, before, after):
            request.pull.refresh_from_db()
            return str(after)
    return None


def _is_commit_of(request: Request, before: str, after: str) -> bool:
    """Whether the commit `after` is, but for its time, the one of this request on `before`."""
    git = request.by.repo.git
    try:
        expected = _objects(request, before, timezone.now())[-1].content
    except (Conflict, Invalid):
        return False
    headers = git.ask(lambda batch: batch.info(after.encode()))
    stored = git.ask(lambda batch: batch.contents(*filter(None, headers)))
    return [TIMES.sub(rb"\1", content) for content in stored] == [TIMES.sub(rb"\1", expected)]
