"""Parts of the pages of threads and pulls: their forms, bodies as HTML, pages of replies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.safestring import SafeString, mark_safe

from apps.core.errors import Conflict, Invalid
from apps.core.pagination import with_parameters
from apps.core.serializers import VISIBLE, RequestSerializer
from apps.core.slugs import USERNAME_MAX
from apps.git.merge import Strategy
from apps.pulls.draft_serializers import DRAFT_KINDS, UpdateDraftComment
from apps.pulls.models import Pull, PullStatus
from apps.pulls.rules import DECISIONS, SETTABLE, MergeRefused, merge_message
from apps.pulls.serializers import (
    APPLIED_MAX,
    COMMENT_KINDS,
    COMMENT_MAX,
    ApplySuggestions,
    CreateComment,
    CreatePull,
    CreateReview,
    MergePull,
    SetPullStatus,
    UpdateBranch,
    UpdatePull,
)
from apps.repos.access import RepoAccess
from apps.threads.models import Priority, Reply, ReplyStatus, Thread, ThreadStatus
from apps.threads.queries import index_of, list_replies
from apps.threads.rules import KINDS
from apps.threads.serializers import (
    CreateReply,
    CreateThread,
    StoredHtml,
    UpdateReply,
    UpdateThread,
    add_html,
    reply_record,
)
from apps.web.forms import (
    PLAIN,
    EditForm,
    LinesField,
    PageForm,
    choice_field,
    text_field,
    word_choices,
)
from apps.web.responses import PageRequest, page_of

REPLIES = 200
"""Replies per page."""


def with_html(
    request: PageRequest,
    access: RepoAccess,
    records: Sequence[dict[str, Any]],
    *managers: Any,
    address: str = "",
) -> Sequence[dict[str, Any]]:
    """Add `body_html` to records, safe for a template; `managers`: of the models that store it.

    A record whose HTML has no room on the page gets `body_url`, a link to `address` with that body
    first. Without `address` it is the path of the request: pass one where that may be a POST.
    """
    first = request.GET.get("show")
    in_order = sorted(records, key=lambda record: key_of(record) != first)
    add_html(access, "", in_order, *map(StoredHtml, managers))
    path, _, query = (address or request.get_full_path()).partition("?")
    for record in records:
        if record["body_html"] is None:
            record["body_url"] = f"{path}?{with_parameters(QueryDict(query), show=key_of(record))}"
        else:
            # The renderer writes all tags and attributes itself: see `apps/core/markdown.py`.
            record["body_html"] = mark_safe(record["body_html"])  # noqa: S308 - see above
    return records


def key_of(record: dict[str, Any]) -> str:
    """The value of `?show=` for a record: its uuid, or the number of a version."""
    return str(record.get("uuid") or record.get("version", ""))


def page_of_replies(request: PageRequest, thread: Thread, number: int) -> dict[str, Any]:
    """A page of replies. `to` is the author of a parent that is live and on the same page."""
    page = page_of(
        request,
        list_replies(thread),
        lambda row: reply_record(row, thread.number),
        number=number,
        size=REPLIES,
    )
    names = {record["number"]: record["created_by_username"] for record in page["results"]}
    for record in page["results"]:
        record["to"] = names.get(record.get("parent_reply_number"))
    return page


def page_of_reply(reply: Reply) -> int:
    """The page of the thread that has the reply, from 1. A query if there can be several."""
    if reply.thread.last_reply_number <= REPLIES:
        return 1
    return index_of(reply) // REPLIES + 1


def on_page(address: str, number: int) -> str:
    """The address of a page of replies; pages count from 1."""
    return f"{address}?page={number}" if number > 1 else address


def address_of(access: RepoAccess, thread: Thread) -> str:
    """The path of the page of a thread or of its pull."""
    return f"/{access.repo.path}{thread.segment}"


REPLY_KINDS = ["comment", "question", "answer", "suggestion", "task"]
"""The kinds in the menu; over the API a reply may have any kind."""


class BodyField(LinesField):
    """A text in Markdown, which is not trimmed."""

    def __init__(self, *, required: bool, rows: int = 10) -> None:
        super().__init__(
            label="Text",
            required=required,
            strip=False,
            help_text="Markdown; @name notifies, #12 links.",
            widget=forms.Textarea(attrs={"rows": str(rows), "data-draft": True}),
        )

    def validate(self, value: Any) -> None:
        super().validate(value if re.search(VISIBLE, value) else "")


class TextForm(PageForm):
    """A form with a text in Markdown and a button that previews it."""

    fields: dict[str, Any]
    preview = SafeString("")
    """The text as HTML, if a preview was requested."""

    def render_page(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        """Like PageForm, with the preview as this person sees it."""
        if self.is_preview:
            text = str(self.initial["body"])[: self.fields["body"].max_length]
            [record] = with_html(request, context["access"], [{"body": text}])
            self.preview = record["body_html"]
        return super().render_page(request, template, **context)


class ThreadForm(TextForm):
    request_serializer: type[RequestSerializer] = CreateThread

    title = text_field("Title", autocomplete="off")
    body = BodyField(required=False)
    kind = choice_field("Kind", KINDS)
    priority = choice_field("Priority", Priority)


class EditThread(EditForm, ThreadForm):
    request_serializer = UpdateThread

    status = choice_field("Status", ThreadStatus)


class ReplyForm(TextForm):
    request_serializer = CreateReply

    kind = choice_field("Kind", REPLY_KINDS)
    body = BodyField(required=True, rows=5)


class CommentForm(TextForm):
    request_serializer = CreateComment
    id_format = "line_%s"

    kind = choice_field("Kind", COMMENT_KINDS)
    body = BodyField(required=True, rows=5)


class LineReplyForm(ReplyForm):
    id_format = "line_%s"


class EditDraftComment(EditForm, TextForm):
    request_serializer = UpdateDraftComment

    kind = choice_field("Kind", DRAFT_KINDS)
    body = BodyField(required=True)


class EditReply(EditForm, TextForm):
    request_serializer = UpdateReply

    kind = text_field("Kind", autocomplete="off", list="kinds")
    status = choice_field("Status", ReplyStatus)
    body = BodyField(required=True)


THREAD_ORDERS = [
    ("-number", "Newest first"),
    ("number", "Oldest first"),
    ("-last_activity_at", "Newest activity first"),
    ("last_activity_at", "Oldest activity first"),
]


class FilterForm(forms.Form):
    """A GET form that filters a list by parameters of the API's list; `filters` has those set."""

    field_order = ["search", "status", "kind", "created_by", "ordering"]
    search = forms.CharField(label="Text", required=False)
    created_by = forms.CharField(label="Author", required=False)

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query, label_suffix="")
        self.filters = QueryDict(mutable=True)
        for name in self.fields:
            if values := [value for value in query.getlist(name) if value]:
                self.filters.setlist(name, values)

    def apply(self, filter_set: Any, request: PageRequest, queryset: Any, rows: Any) -> Any:
        """The rows that match, by a filter set of the API over `queryset`; 422."""
        filters = filter_set(self.filters, queryset=queryset, request=request)
        if filters.errors:
            raise Invalid("validation_failed", "Unknown filter value.")
        return filters.filter_queryset(rows)


def filter_field(label: str, words: Any) -> forms.ChoiceField:
    """A menu of words of the API, and `Any`, which filters nothing."""
    choices = [("", "Any"), *word_choices(words)]
    return forms.ChoiceField(label=label, choices=choices, required=False)


class ThreadFilters(FilterForm):
    status = filter_field("Status", ThreadStatus)
    kind = filter_field("Kind", KINDS)
    ordering = forms.ChoiceField(label="Order", choices=THREAD_ORDERS, required=False)


STRATEGIES = {
    Strategy.MERGE: "Merge commit",
    Strategy.SQUASH: "Squash into one commit",
    Strategy.REBASE: "Rebase onto the target",
    Strategy.FAST_FORWARD: "Fast-forward only",
}
PULL_ORDERS = [
    ("-number", "Newest first"),
    ("number", "Oldest first"),
    ("-updated_at", "Latest change first"),
    ("updated_at", "Earliest change first"),
]


class PullForm(TextForm):
    request_serializer = CreatePull

    source_branch = text_field(
        "From branch",
        help_text="For a branch of a fork, put its owner first: users/ada:topic.",
        list="branches",
        **PLAIN,
    )
    target_branch = text_field("Into branch", list="branches", **PLAIN)
    title = text_field("Title", autocomplete="off")
    body = BodyField(required=False)
    status = choice_field("Status", [PullStatus.OPEN, PullStatus.DRAFT])


class EditPull(EditForm, TextForm):
    """`branches`: the branches to choose a target from; None for a pull that has ended."""

    request_serializer = UpdatePull

    title = text_field("Title", autocomplete="off")
    target_branch = forms.ChoiceField(
        label="Into branch",
        required=False,
        help_text="After a change, approvals for the former branch no longer count.",
    )
    body = BodyField(required=False)

    def __init__(
        self, request: PageRequest, branches: Sequence[str] | None = (), **initial: Any
    ) -> None:
        super().__init__(request, **initial)
        if branches is None:
            del self.fields["target_branch"]
        else:
            names = dict.fromkeys((initial.get("target_branch", ""), *branches))
            self.fields["target_branch"].choices = [(name, name) for name in names]

    def clean_target_branch(self) -> str | None:
        """The present target if none was sent, as from a page of an earlier version."""
        return self.cleaned_data["target_branch"] or self.initial.get("target_branch")


class ReviewersForm(PageForm):
    """Asks one more person for a review, or takes a request back (`remove`)."""

    id_format = "reviewers_%s"

    reviewers = text_field("Username", length=USERNAME_MAX, list="people", **PLAIN)
    remove = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, request: PageRequest, **options: Any) -> None:
        super().__init__(request, **options)
        self.fields["reviewers"].required = not self.data.get("remove")


class SetStatus(PageForm):
    request_serializer = SetPullStatus

    status = choice_field("Status", SETTABLE)


def hidden_field() -> forms.CharField:
    """A value that the page has shown; None if it is missing."""
    return forms.CharField(widget=forms.HiddenInput, required=False, empty_value=None)


class ReviewForm(TextForm):
    request_serializer = CreateReview
    id_format = "review_%s"

    body = BodyField(required=False, rows=5)
    status = choice_field("Decision", DECISIONS)
    expected_head_sha = hidden_field()
    expected_target_branch = hidden_field()
    draft = hidden_field()
    """The uuid of the draft review that the page has shown, if it has one."""


class MergeForm(PageForm):
    request_serializer = MergePull
    id_format = "merge_%s"

    merge_strategy = forms.ChoiceField(label="How", choices=list(STRATEGIES.items()))
    message = LinesField(
        label="Message",
        required=False,
        empty_value=None,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="For a merge commit and a squash. If you leave it as it is, or empty, the commit "
        "has the default message of the way that you choose.",
    )
    delete_source_branch = forms.BooleanField(label="Delete the branch afterwards", required=False)
    expected_head_sha = forms.CharField(widget=forms.HiddenInput)
    expected_target_branch = hidden_field()

    @classmethod
    def of(cls, request: PageRequest, pull: Pull) -> Self:
        """A new form for the head of the pull, with the default message of a merge."""
        message = merge_message(pull, Strategy.MERGE)
        return cls(
            request,
            unbound=True,
            message=message,
            expected_head_sha=pull.head_sha or "",
            expected_target_branch=pull.target_branch,
        )

    def message_for(self, pull: Pull) -> str | None:
        """The message, or None if it is the default of any strategy."""
        message: str | None = self.cleaned_data["message"]
        is_default = message in [merge_message(pull, strategy) for strategy in Strategy]
        return None if is_default else message

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show the reasons without their codes, which the text of the API has."""
        with super().refusals():
            try:
                yield
            except MergeRefused as refusal:
                text = " ".join(blocker.text for blocker in refusal.blockers)
                raise Conflict(refusal.code, text) from None


class UpdateBranchForm(PageForm):
    request_serializer = UpdateBranch
    id_format = "update_%s"

    expected_head_sha = forms.CharField(widget=forms.HiddenInput)


class ApplyForm(PageForm):
    """Applies the suggestions in comments with these numbers."""

    request_serializer = ApplySuggestions
    id_format = "apply_%s"

    comments = forms.Field(
        label="Suggestions",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one."},
    )
    message = LinesField(
        label="Message",
        required=False,
        empty_value=None,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Without one, the commit names the file.",
    )
    expected_head_sha = forms.CharField(widget=forms.HiddenInput)

    def clean_comments(self) -> list[int]:
        sent = self.cleaned_data["comments"]
        if len(sent) > APPLIED_MAX:
            raise forms.ValidationError(f"At most {APPLIED_MAX} can be applied together.")
        if not all(one.isdecimal() and int(one) <= COMMENT_MAX for one in sent):
            raise forms.ValidationError("There is no such comment.")
        return [*map(int, sent)]


class PullFilters(FilterForm):
    status = filter_field("Status", PullStatus)
    ordering = forms.ChoiceField(label="Order", choices=PULL_ORDERS, required=False)
