"""The conditions that protections set for merging, and their settings.

A new rule is a class here, a line in `RULES`, and a column of `Protection` for each setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from django import forms
from django.db.models import Q
from rest_framework import serializers

from apps.core.errors import Invalid
from apps.core.serializers import (
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictIntegerField,
)
from apps.repos.contexts import CONTEXT, CONTEXT_MAX, context_problem
from apps.repos.models import NAMES_MAX, REQUIRED_MAX, Protection

MISSING = "missing"
"""The state of a required status without a report that counts."""
ASKS_FOR_APPROVALS = Q(required_approvals__gt=0)
"""Protections that require approvals, as a condition for lists."""
Fields = dict[str, "serializers.Field[Any, Any, Any, Any]"]
F = TypeVar("F", bound="type[forms.BaseForm]")


@dataclass(frozen=True)
class Setting:
    """A column of `Protection` that admins set. It has the same name in API, pages and events.

    `description` is its sentence in the OpenAPI document. `summary` is a value in a few words for
    the pages of protections; empty for a value that changes nothing. `check` raises 422 for a value
    that no protection may have; the action calls it.
    """

    name: str
    default: Any
    description: str
    summary: Callable[[Any], str]
    request_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    record_field: Callable[[], serializers.Field[Any, Any, Any, Any]]
    form_field: Callable[[], forms.Field]
    check: Callable[[Any], None]


class CommentCounts(NamedTuple):
    """The numbers of comments on lines of a pull that are not deleted."""

    total: int = 0
    unresolved: int = 0

    @property
    def text(self) -> str:
        noun = "comment" if self.total == 1 else "comments"
        return f"{self.total - self.unresolved} of {self.total} {noun} on lines resolved"


class MergeCandidate(Protocol):
    """The parts of a pull that rules read, with the protections of its target."""

    @property
    def protections(self) -> Sequence[Protection]: ...
    @property
    def head_sha(self) -> str | None: ...
    @property
    def changes_requested_by(self) -> Sequence[str]: ...
    @property
    def unmet_statuses(self) -> Mapping[str, str]: ...
    @property
    def comments(self) -> CommentCounts: ...
    def given(self, protection: Protection) -> int: ...


class Rule(Protocol):
    """A condition for merging. Add a new one to `RULES`.

    `code` is the error code of a refused merge. Pages show `met` if the condition holds, else
    `remedy`, which tells how to fulfil it.
    """

    code: str
    settings: Sequence[Setting]
    met: str
    remedy: str

    def blocks(self, candidate: MergeCandidate) -> str | None:
        """The reason why the pull cannot be merged; None if this rule allows it.

        Called before a merge and again under its locks, if the target has protections.
        """


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


class RequiredApprovals:
    """Blocks a merge until each protection has the required number of approvals."""

    code = "approval_required"
    settings: Sequence[Setting] = (
        Setting(
            name="required_approvals",
            default=1,
            description="Number of approvals that a merge requires.",
            summary=lambda number: f"{number} approval{'' if number == 1 else 's'}",
            request_field=partial(
                StrictIntegerField, min_value=0, max_value=REQUIRED_MAX, required=False
            ),
            record_field=serializers.IntegerField,
            form_field=partial(
                forms.IntegerField,
                label="Required approvals",
                min_value=0,
                max_value=REQUIRED_MAX,
                help_text="With 0, the branch changes only by merging, but needs no approval.",
            ),
            check=check_required_approvals,
        ),
    )
    met = "Enough approvals"
    remedy = "Only approvals of the current changes count."

    def blocks(self, candidate: MergeCandidate) -> str | None:
        texts = [
            f"{protection.branch} asks for {protection.required_approvals}, and has {given}"
            for protection in candidate.protections
            if (given := candidate.given(protection)) < protection.required_approvals
        ]
        return f"Approvals are missing: {'; '.join(texts)}." if texts else None


class NamesField(serializers.ListField):
    """At most `NAMES_MAX` names, each once."""

    def __init__(self, child: StrictCharField, **options: Any) -> None:
        super().__init__(child=child, max_length=NAMES_MAX, **{"required": False, **options})

    def to_internal_value(self, data: Any) -> list[str]:
        return [*dict.fromkeys(super().to_internal_value(data))]


class NamesFormField(forms.CharField):
    """A list of names in a form, one on each line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, **options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else (value or "").splitlines()
        return [*dict.fromkeys(line.strip() for line in lines if line.strip())]


def names_record() -> serializers.Field[Any, Any, Any, Any]:
    return serializers.ListField(child=serializers.CharField())


def name_setting(
    name: str,
    description: str,
    label: str,
    help_text: str,
    make_field: Callable[[], StrictCharField],
    summary: str,
) -> Setting:
    """A setting that is a list of names."""

    def request_field() -> NamesField:
        return NamesField(make_field())

    def check(names: Sequence[str]) -> None:
        try:
            request_field().run_validation([*names])
        except serializers.ValidationError as error:
            raise Invalid("validation_failed", f"{name}: {first_text(error.detail)}") from None

    return Setting(
        name=name,
        default=[],
        description=description,
        summary=lambda names: f"{summary} {', '.join(names)}" if names else "",
        request_field=request_field,
        record_field=names_record,
        form_field=partial(NamesFormField, label=label, help_text=help_text),
        check=check,
    )


def first_text(detail: Any) -> str:
    """The first message of DRF's nested errors."""
    while not isinstance(detail, str):
        detail = next(iter(detail.values() if isinstance(detail, dict) else detail))
    return detail


class RequiredStatuses:
    """Blocks a merge until each required status of the head is a success."""

    code = "statuses_required"
    settings: Sequence[Setting] = (
        name_setting(
            "required_statuses",
            "Contexts whose latest status on the head must be `success` for a merge.",
            "Required statuses",
            "One on each line, as CI reports them: ci/build.",
            partial(
                RuleCharField,
                problem=context_problem,
                max_length=CONTEXT_MAX,
                pattern=CONTEXT.pattern,
            ),
            "statuses",
        ),
        name_setting(
            "status_reporters",
            "Usernames of the people whose statuses count, except on their own pulls. If empty, "
            "those of everybody with write access count.",
            "Reporters of statuses",
            "Usernames, one on each line. Without any, everybody with write access is trusted.",
            partial(StrictCharField, max_length=255),
            "reported by",
        ),
    )
    met = "All required statuses are a success"
    remedy = "Wait for the programs that report them, or push a commit that passes."

    def blocks(self, candidate: MergeCandidate) -> str | None:
        texts = [
            f"{context} is missing" if state == MISSING else f"{context} is {state}"
            for context, state in candidate.unmet_statuses.items()
        ]
        return f"Required statuses are not a success: {'; '.join(texts)}." if texts else None


def no_check(_: Any) -> None:
    """For a setting of which each value of its type is allowed."""


class ResolvedComments:
    """Blocks a merge until all comments on lines are resolved."""

    code = "comments_unresolved"
    settings: Sequence[Setting] = (
        Setting(
            name="resolved_required",
            default=False,
            description="Whether all comments on lines must be resolved for a merge.",
            summary=lambda is_on: "all comments on lines resolved" if is_on else "",
            request_field=partial(StrictBooleanField, required=False),
            record_field=serializers.BooleanField,
            form_field=partial(
                forms.BooleanField,
                label="All comments on lines must be resolved",
                required=False,
                help_text="Their authors, and people with write access, resolve them.",
            ),
            check=no_check,
        ),
    )
    met = "All comments on lines are resolved"
    remedy = "Answer them, and resolve those that are settled."

    def blocks(self, candidate: MergeCandidate) -> str | None:
        if not any(protection.resolved_required for protection in candidate.protections):
            return None
        return f"{candidate.comments.text}." if candidate.comments.unresolved else None


RULES: tuple[Rule, ...] = (
    ChangesRequested(),
    RequiredApprovals(),
    RequiredStatuses(),
    ResolvedComments(),
)
"""In the order in which the API lists the blockers of a merge."""
SETTINGS = {setting.name: setting for rule in RULES for setting in rule.settings}


def settings_of(protection: Protection) -> dict[str, Any]:
    return {name: getattr(protection, name) for name in SETTINGS}


def summaries(protection: Protection) -> list[str]:
    """The settings of a protection in a few words each, for pages."""
    texts = [setting.summary(getattr(protection, name)) for name, setting in SETTINGS.items()]
    return [text for text in texts if text]


def defaults() -> dict[str, Any]:
    return {name: setting.default for name, setting in SETTINGS.items()}


def check_settings(values: Mapping[str, Any]) -> None:
    """422 for a value that the rule of its setting does not allow."""
    for name, value in values.items():
        SETTINGS[name].check(value)


def described(
    setting: Setting, field: serializers.Field[Any, Any, Any, Any]
) -> serializers.Field[Any, Any, Any, Any]:
    """The field of a setting, with its description."""
    field.help_text = setting.description
    return field


def with_request_fields(fields: Fields) -> Fields:
    """Append the settings to the fields of a request."""
    return fields | {name: described(it, it.request_field()) for name, it in SETTINGS.items()}


def with_record_fields(fields: Fields) -> Fields:
    """Insert the settings behind `branch` into the fields of a record."""
    settings = {name: described(it, it.record_field()) for name, it in SETTINGS.items()}
    at = [*fields].index("branch") + 1
    items = [*fields.items()]
    return dict([*items[:at], *settings.items(), *items[at:]])


def with_form_fields(form: F) -> F:
    """Class decorator that adds the settings to a form."""
    fields = {name: setting.form_field() for name, setting in SETTINGS.items()}
    for name in ("declared_fields", "base_fields"):
        setattr(form, name, getattr(form, name) | fields)
    return form
