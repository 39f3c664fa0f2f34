"""The forms of threads and replies."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.http import QueryDict

from apps.core.changes import compare_with_what_was_shown
from apps.core.serializers import VISIBLE
from apps.threads.kinds import Priority, ReplyStatus, ThreadStatus
from apps.threads.rules import KINDS, ORDERINGS, WORD_MAX, word_problem
from apps.threads.serializers import CreateReply, CreateThread
from apps.web.forms import ANY, PageForm, chosen_of, menu, most, text_field, words
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
            error_messages={"required": "This is needed."},
        )

    def to_python(self, value: Any) -> Any:
        return (super().to_python(value) or "").replace("\r\n", "\n")

    def validate(self, value: Any) -> None:
        super().validate(value if re.search(VISIBLE, value) else "")


class ThreadForm(PageForm):
    request_serializer = CreateThread

    title = text_field("Title", length=most(CreateThread, "title"), autocomplete="off")
    body = BodyField(length=most(CreateThread, "body"), required=False)
    kind = menu("Kind", KINDS)
    priority = menu("Priority", Priority)


class EditThread(ThreadForm):
    status = menu("Status", ThreadStatus)

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not self.old:
            compare_with_what_was_shown(self)

    def changes(self) -> dict[str, Any]:
        """What its reader has changed on the page, however old that is."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


class ReplyForm(PageForm):
    request_serializer = CreateReply

    kind = menu("Kind", REPLY_KINDS)
    body = BodyField(length=most(CreateReply, "body"), required=True, rows=5)


class EditReply(PageForm):
    request_serializer = CreateReply

    kind = text_field("Kind", length=WORD_MAX, autocomplete="off", list="kinds")
    status = menu("Status", ReplyStatus)
    body = BodyField(length=most(CreateReply, "body"), required=True)

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not self.old:
            compare_with_what_was_shown(self)

    def clean_kind(self) -> str:
        word: str = self.cleaned_data["kind"]
        problem = word_problem(word)
        if problem is not None:
            raise forms.ValidationError(problem)
        return word

    def changes(self) -> dict[str, Any]:
        """What its reader has changed on the page, however old that is."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


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
