"""Parts of the pages of threads and pulls: their forms, bodies as HTML, pages of replies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.safestring import SafeString, mark_safe

from apps.core.errors import Conflict
from apps.core.pagination import with_parameters
from apps.core.serializers import VISIBLE, RequestSerializer
from apps.git.merge import Strategy
from apps.pulls.models import PullStatus
from apps.pulls.rules import DECISIONS, SETTABLE, MergeRefused
from apps.pulls.serializers import CreatePull, CreateReview, MergePull, SetPullStatus, UpdatePull
from apps.repos.access import RepoAccess
from apps.threads.models import Priority, ReplyStatus, Thread, ThreadStatus
from apps.threads.rules import KINDS
from apps.threads.serializers import (
    CreateReply,
    CreateThread,
    StoredHtml,
    UpdateReply,
    UpdateThread,
    add_html,
)
from apps.web.forms import PLAIN, EditForm, PageForm, choice_field, text_field, word_choices
from apps.web.responses import PageRequest

ANY = [("", "Any")]
"""The choice of a menu that filters nothing."""
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


def name_parents(records: list[dict[str, Any]]) -> None:
    """Add to each reply, as `to`, the author of its parent if that is on the same page and live."""
    names = {record["number"]: record["created_by_username"] for record in records}
    for record in records:
        record["to"] = names.get(record.get("parent_reply_number"))


def on_page(address: str, number: int) -> str:
    """The address of a page of replies; pages count from 1."""
    return f"{address}?page={number}" if number > 1 else address


def address_of(access: RepoAccess, thread: Thread) -> str:
    """The path of the page of a thread or of its pull."""
    return f"/{access.repo.path}{thread.segment}"


ROWS_OF_TEXT = 10
MARKDOWN = "Markdown; @name notifies, #12 links."
REPLY_KINDS = ["comment", "question", "answer", "suggestion", "task"]
"""The kinds in the menu; over the API a reply may have any kind."""


class BodyField(forms.CharField):
    """A text in Markdown: not trimmed, with LF as line ends."""

    def __init__(self, *, required: bool, rows: int = ROWS_OF_TEXT) -> None:
        super().__init__(
            label="Text",
            required=required,
            strip=False,
            help_text=MARKDOWN,
            widget=forms.Textarea(attrs={"rows": str(rows), "data-draft": True}),
            error_messages={"required": "This field is required."},
        )

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace("\r\n", "\n")

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

    def __init__(self, query: QueryDict) -> None:
        super().__init__(query, label_suffix="")
        self.filters = QueryDict(mutable=True)
        for name in self.fields:
            if values := [value for value in query.getlist(name) if value]:
                self.filters.setlist(name, values)


class ThreadFilters(FilterForm):
    search = forms.CharField(label="Text", required=False)
    status = forms.ChoiceField(
        label="Status", choices=[*ANY, *word_choices(ThreadStatus)], required=False
    )
    kind = forms.ChoiceField(label="Kind", choices=[*ANY, *word_choices(KINDS)], required=False)
    created_by = forms.CharField(label="Author", required=False)
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
    target_branch = text_field(
        "Into branch",
        list="branches",
        **PLAIN,
    )
    title = text_field("Title", autocomplete="off")
    body = BodyField(required=False)
    status = choice_field("Status", [PullStatus.OPEN, PullStatus.DRAFT])


class EditPull(EditForm, TextForm):
    request_serializer = UpdatePull

    title = text_field("Title", autocomplete="off")
    body = BodyField(required=False)


class SetStatus(PageForm):
    request_serializer = SetPullStatus

    status = choice_field("Status", SETTABLE)


class ReviewForm(TextForm):
    request_serializer = CreateReview
    id_format = "review_%s"

    body = BodyField(required=False, rows=5)
    status = choice_field("Decision", DECISIONS)
    expected_head_sha = forms.CharField(widget=forms.HiddenInput, required=False)


class MergeForm(PageForm):
    request_serializer = MergePull
    id_format = "merge_%s"

    merge_strategy = forms.ChoiceField(
        label="How", choices=[(str(one), text) for one, text in STRATEGIES.items()]
    )
    expected_head_sha = forms.CharField(widget=forms.HiddenInput)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show the reasons without their codes, which the text of the API has."""
        with super().refusals():
            try:
                yield
            except MergeRefused as refusal:
                text = " ".join(blocker.text for blocker in refusal.blockers)
                raise Conflict(refusal.code, text) from None


class PullFilters(FilterForm):
    search = forms.CharField(label="Text", required=False)
    status = forms.ChoiceField(
        label="Status", choices=[*ANY, *word_choices(PullStatus)], required=False
    )
    created_by = forms.CharField(label="Author", required=False)
    ordering = forms.ChoiceField(label="Order", choices=PULL_ORDERS, required=False)
