"""The forms of threads and replies."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.safestring import SafeString

from apps.core.serializers import VISIBLE, RequestSerializer
from apps.threads.models import Priority, ReplyStatus, ThreadStatus
from apps.threads.rules import KINDS, ORDERINGS, WORD_MAX
from apps.threads.serializers import CreateReply, CreateThread, UpdateReply, UpdateThread
from apps.web.bodies import with_html
from apps.web.forms import ANY, EditForm, PageForm, chosen_of, menu, most, text_field, words
from apps.web.responses import PageRequest

ROWS_OF_TEXT = 10
MARKDOWN = "Markdown; @name notifies, #12 links."
REPLY_KINDS = ["comment", "question", "answer", "suggestion", "task"]
"""What the menu has; over the API a reply may be of any other kind."""


class BodyField(forms.CharField):
    """A text in Markdown as it is typed, with the line ends that programs send."""

    def __init__(self, *, length: int, required: bool, rows: int = ROWS_OF_TEXT) -> None:
        super().__init__(
            label="Text",
            max_length=length,
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
    """A form with a text in Markdown, which can be seen before it is sent."""

    fields: dict[str, Any]
    preview = SafeString("")
    """The text as HTML, where that was asked for."""

    def shown(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        """As for any form; the text is rendered for who looks at it."""
        if self.is_preview:
            text = str(self.initial["body"])[: self.fields["body"].max_length]
            [record] = with_html(request, context["access"], [{"body": text}])
            self.preview = record["body_html"]
        return super().shown(request, template, **context)


class ThreadForm(TextForm):
    request_serializer: type[RequestSerializer] = CreateThread

    title = text_field("Title", length=most(CreateThread, "title"), autocomplete="off")
    body = BodyField(length=most(CreateThread, "body"), required=False)
    kind = menu("Kind", KINDS)
    priority = menu("Priority", Priority)


class EditThread(EditForm, ThreadForm):
    request_serializer = UpdateThread

    status = menu("Status", ThreadStatus)


class ReplyForm(TextForm):
    request_serializer = CreateReply

    kind = menu("Kind", REPLY_KINDS)
    body = BodyField(length=most(CreateReply, "body"), required=True, rows=5)


class EditReply(EditForm, TextForm):
    request_serializer = UpdateReply

    kind = text_field("Kind", length=WORD_MAX, autocomplete="off", list="kinds")
    status = menu("Status", ReplyStatus)
    body = BodyField(length=most(CreateReply, "body"), required=True)


ORDERS = {
    "-number": "Newest first",
    "number": "Oldest first",
    "-last_activity_at": "Newest activity first",
    "last_activity_at": "Oldest activity first",
}


class ThreadSearch(forms.Form):
    """Narrows a list of threads: what the API's list takes, as menus."""

    search = forms.CharField(label="Text", required=False)
    status = forms.ChoiceField(label="Status", choices=[*ANY, *words(ThreadStatus)], required=False)
    kind = forms.ChoiceField(label="Kind", choices=[*ANY, *words(KINDS)], required=False)
    created_by = forms.CharField(label="Author", required=False)
    ordering = forms.ChoiceField(
        label="Order", choices=[(word, ORDERS[word]) for word in ORDERINGS], required=False
    )

    def __init__(self, asked: QueryDict) -> None:
        super().__init__(asked, label_suffix="")
        self.filters = chosen_of(asked, self.fields)
