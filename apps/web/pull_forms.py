"""The forms of pulls and reviews."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django import forms
from django.http import QueryDict

from apps.core.errors import Conflict
from apps.git.merge import Strategy
from apps.pulls.models import PullStatus
from apps.pulls.rules import DECISIONS, ORDERINGS, SETTABLE, MergeRefused
from apps.pulls.serializers import CreatePull, CreateReview, MergePull, SetPullStatus, UpdatePull
from apps.web.forms import ANY, EditForm, PageForm, chosen_of, menu, most, text_field, words
from apps.web.thread_forms import BodyField, TextForm

STRATEGIES = {
    Strategy.MERGE: "Merge commit",
    Strategy.SQUASH: "Squash into one commit",
    Strategy.REBASE: "Rebase onto the target",
    Strategy.FAST_FORWARD: "Fast-forward only",
}
ORDERS = {
    "-number": "Newest first",
    "number": "Oldest first",
    "-updated_at": "Latest change first",
    "updated_at": "Earliest change first",
}


class PullForm(TextForm):
    request_serializer = CreatePull

    source_branch = text_field(
        "From branch",
        length=most(CreatePull, "source_branch"),
        help_text="For a branch of a fork, put its owner first: users/ada:topic.",
        list="branches",
        autocomplete="off",
        autocapitalize="none",
        spellcheck="false",
    )
    target_branch = text_field(
        "Into branch",
        length=most(CreatePull, "target_branch"),
        list="branches",
        autocomplete="off",
        autocapitalize="none",
        spellcheck="false",
    )
    title = text_field("Title", length=most(CreatePull, "title"), autocomplete="off")
    body = BodyField(length=most(CreatePull, "body"), required=False)
    status = menu("Status", [PullStatus.OPEN, PullStatus.DRAFT])


class EditPull(EditForm, TextForm):
    request_serializer = UpdatePull

    title = text_field("Title", length=most(CreatePull, "title"), autocomplete="off")
    body = BodyField(length=most(CreatePull, "body"), required=False)


class SetStatus(PageForm):
    request_serializer = SetPullStatus

    status = menu("Status", SETTABLE)


class ReviewForm(TextForm):
    request_serializer = CreateReview
    ids = "review_%s"

    body = BodyField(length=most(CreateReview, "body"), required=False, rows=5)
    status = menu("Decision", DECISIONS)
    expected_head_sha = forms.CharField(widget=forms.HiddenInput, required=False)


class MergeForm(PageForm):
    request_serializer = MergePull
    ids = "merge_%s"

    merge_strategy = forms.ChoiceField(
        label="How", choices=[(str(one), text) for one, text in STRATEGIES.items()]
    )
    expected_head_sha = forms.CharField(widget=forms.HiddenInput)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show the reasons in words alone: the API's text has their codes as well."""
        with super().refusals():
            try:
                yield
            except MergeRefused as refusal:
                text = " ".join(blocker.text for blocker in refusal.blockers)
                raise Conflict(refusal.code, text) from None


class PullSearch(forms.Form):
    """Narrows a list of pulls: what the API's list takes, as menus."""

    search = forms.CharField(label="Text", required=False)
    status = forms.ChoiceField(label="Status", choices=[*ANY, *words(PullStatus)], required=False)
    created_by = forms.CharField(label="Author", required=False)
    ordering = forms.ChoiceField(
        label="Order", choices=[(word, ORDERS[word]) for word in ORDERINGS], required=False
    )

    def __init__(self, asked: QueryDict) -> None:
        super().__init__(asked, label_suffix="")
        self.filters = chosen_of(asked, self.fields)
