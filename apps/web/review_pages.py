"""`…/pulls/<n>/draft` and `/apply-suggestions`: the draft comments and suggestions of a pull."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpResponse

from apps.pulls import actions
from apps.pulls.draft_reviews import DraftComment, own_comment, own_draft
from apps.pulls.heads import access_to_source
from apps.pulls.models import Pull
from apps.pulls.queries import comments_of, get_pull
from apps.pulls.rules import check_active
from apps.pulls.serializers import APPLIED_MAX
from apps.pulls.suggestions import WORD
from apps.repos.access import RepoAccess
from apps.threads.models import ANCHORED_ROW, Reply, ReplyStatus
from apps.threads.serializers import reply_record
from apps.web.conversations import ApplyForm, EditDraftComment, with_html
from apps.web.decorators import FORM, repo_page
from apps.web.forms import PageForm
from apps.web.frame import repo_context
from apps.web.line_comments import COMMENTS_MAX
from apps.web.responses import PageRequest, redirect_to
from apps.web.suggested_changes import add_suggestions
from apps.web.templatetags.anchors import anchor_of


def files_address(access: RepoAccess, pull: Pull, comment: DraftComment | None = None) -> str:
    """The tab Files, at a comment of a draft or at its file."""
    address = f"/{access.repo.path}/pulls/{pull.number}/files"
    if comment is None:
        return address
    query = f"?open={anchor_of(bytes(comment.path))}" if comment.path is not None else ""
    return f"{address}{query}#draft-{comment.uuid}"


@repo_page(methods=FORM, throttle="pulls")
def edit_draft_comment(
    request: PageRequest, access: RepoAccess, number: int, comment: UUID
) -> HttpResponse:
    """Change a comment of the reader's draft."""
    pull = get_pull(access.repo, number)
    row = own_comment(pull, access.user, comment)
    back, form = files_address(access, pull, row), EditDraftComment(request, **edited(row))
    if form.is_valid():
        with form.refusals():
            values = form.changes()
            actions.update_draft_comment(access=access, pull=pull, comment_uuid=comment, **values)
            return redirect_to(back)
    return show(request, access, "edit_draft_comment", form, pull, comment=row, back=back)


def edited(comment: DraftComment) -> dict[str, str]:
    return {"kind": comment.kind, "body": comment.body}


@repo_page(methods=FORM, throttle="pulls")
def delete_draft_comment(
    request: PageRequest, access: RepoAccess, number: int, comment: UUID
) -> HttpResponse:
    """Delete a comment of the reader's draft. A GET asks for confirmation."""
    pull, form = get_pull(access.repo, number), PageForm(request)
    row = own_comment(pull, access.user, comment)
    if request.method == "POST":
        with form.refusals():
            actions.delete_draft_comment(access=access, pull=pull, comment_uuid=comment)
            return redirect_to(files_address(access, pull), request, "Draft comment deleted.")
    back = files_address(access, pull, row)
    return show(request, access, "delete_draft_comment", form, pull, comment=row, back=back)


@repo_page(methods=FORM, throttle="pulls")
def discard_draft(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Delete the reader's draft with all of its comments. A GET asks for confirmation."""
    pull, form = get_pull(access.repo, number), PageForm(request)
    draft = own_draft(pull, access.user)
    if request.method == "POST":
        with form.refusals():
            actions.discard_draft(access=access, pull=pull)
            return redirect_to(files_address(access, pull), request, "Draft discarded.")
    count, back = draft.comments.count(), files_address(access, pull)
    return show(request, access, "discard_draft", form, pull, count=count, back=back)


def show(
    request: PageRequest,
    access: RepoAccess,
    template: str,
    form: PageForm,
    pull: Pull,
    **context: Any,
) -> HttpResponse:
    """A page of one pull with a form."""
    context |= {"pull": pull, **repo_context(access, "pulls")}
    return form.render_page(request, template, **context)


@repo_page(methods=FORM, throttle="pulls")
def apply_suggestions(request: PageRequest, access: RepoAccess, number: int) -> HttpResponse:
    """Apply suggestions by one commit on the source branch: of the comments of `?comments=`, else
    of all that can be applied. A GET lists them.
    """
    pull = get_pull(access.repo, number)
    access_to_source(access, pull)
    check_active(pull)
    chosen = {int(one) for one in request.GET.getlist("comments") if one.isdecimal()}
    records = suggestions_of(request, access, pull, chosen)
    form = ApplyForm(request, expected_head_sha=pull.head_sha or "")
    if form.is_valid():
        with form.refusals():
            values = form.cleaned_data
            actions.apply_suggestions(access=access, pull=pull, **values)
            count = len(values["comments"])
            text = "Suggestion applied." if count == 1 else f"{count} suggestions applied."
            first = f"{files_address(access, pull)}#comment-{min(values['comments'])}"
            return redirect_to(first, request, text)
    if form.is_bound or form.is_outdated:
        chosen = {int(one) for one in request.POST.getlist("comments") if one.isdecimal()}
    numbers = [record["number"] for record in records if record["suggestion"].is_open]
    for record in records:
        record["is_chosen"] = record["number"] in (chosen or numbers[:APPLIED_MAX])
    count = len(numbers)
    back = files_address(access, pull)
    context = {"records": records, "count": count, "back": back}
    return show(request, access, "apply_suggestions", form, pull, **context)


def suggestions_of(
    request: PageRequest, access: RepoAccess, pull: Pull, numbers: set[int]
) -> list[dict[str, Any]]:
    """The records of open comments with suggestions; with `numbers`, of those comments alone. One
    that cannot be applied says why.
    """
    rows = comments_of(pull).filter(body__contains=WORD, deleted_at=None)
    rows = rows.filter(number__in=numbers) if numbers else rows.filter(status=ReplyStatus.OPEN)
    values = rows.values_list(*ANCHORED_ROW.values())[:COMMENTS_MAX]
    records = [reply_record(row, pull.number) for row in values]
    with_html(request, access, records, Reply.objects, address=files_address(access, pull))
    add_suggestions(records)
    return [record for record in records if record.get("suggestion")]
