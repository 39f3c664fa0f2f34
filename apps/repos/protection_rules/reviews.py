"""The rules about reviews: nobody requests changes, and enough people approve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.db.models import Q
from rest_framework import serializers

from apps.core.errors import Invalid
from apps.core.serializers import StrictIntegerField
from apps.repos.models import REQUIRED_MAX
from apps.repos.protection_rules.rule import MergeCandidate, Setting

ASKS_FOR_APPROVALS = Q(required_approvals__gt=0)
"""Protections that require approvals, as a condition for lists."""


class ChangesRequested:
    """Blocks a merge while an eligible reviewer requests changes."""

    code = "changes_requested"
    settings: Sequence[Setting] = ()
    met = "Nobody requests changes"
    remedy = "This blocks the merge until they approve, or an admin dismisses the review."

    def blocks(self, candidate: MergeCandidate) -> str | None:
        people = ", ".join(candidate.changes_requested_by)
        return f"Changes are requested by {people}." if people else None


def check_required_approvals(number: int) -> None:
    """422 unless it is between 0 and `REQUIRED_MAX`."""
    if not 0 <= number <= REQUIRED_MAX:
        raise Invalid("validation_failed", f"required_approvals: Must be 0 to {REQUIRED_MAX}.")


def request_field() -> serializers.Field[Any, Any, Any, Any]:
    return StrictIntegerField(min_value=0, max_value=REQUIRED_MAX, required=False)


def form_field() -> forms.Field:
    return forms.IntegerField(
        label="Required approvals",
        min_value=0,
        max_value=REQUIRED_MAX,
        help_text="With 0, the branch changes only by merging, but needs no approval.",
    )


class RequiredApprovals:
    """Blocks a merge until each protection has the required number of approvals."""

    code = "approval_required"
    settings: Sequence[Setting] = (
        Setting(
            name="required_approvals",
            default=1,
            request_field=request_field,
            record_field=serializers.IntegerField,
            form_field=form_field,
            check=check_required_approvals,
        ),
    )
    met = "Enough approvals"
    remedy = "Only approvals of the current changes count."

    def blocks(self, candidate: MergeCandidate) -> str | None:
        counts = [
            (protection.branch, protection.required_approvals, candidate.given(protection))
            for protection in candidate.protections
        ]
        texts = [
            f"{branch} asks for {required}, and has {given}"
            for branch, required, given in counts
            if given < required
        ]
        return f"Approvals are missing: {'; '.join(texts)}." if texts else None
