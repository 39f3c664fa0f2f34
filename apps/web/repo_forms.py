"""The forms of repositories: made, changed, protected, forked."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.accounts.principal import Principal
from apps.repos.models import Visibility
from apps.repos.protection_rules import with_form_fields
from apps.repos.queries import spaces_of
from apps.repos.serializers import (
    AddApprover,
    CreateProtection,
    CreateRepo,
    UpdateProtection,
    UpdateRepo,
)
from apps.web.forms import EditForm, PageForm, explained, most, text_field
from apps.web.responses import PageRequest

VISIBILITIES = {
    Visibility.PRIVATE: "Only its owner, or members of the owning team, and staff can read it.",
    Visibility.INTERNAL: "Everybody who is signed in can read it.",
    Visibility.PUBLIC: "Everybody can read it, even without signing in.",
}
SLUG = "The end of its address: lower-case letters, digits, and . _ - between them."
PLAIN = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
"""Attributes of inputs for names that are no words."""


class DescriptionField(forms.CharField):
    """What a repository is for, with the line ends that programs send; None for nothing."""

    def __init__(self) -> None:
        super().__init__(
            label="Description",
            max_length=most(CreateRepo, "description"),
            required=False,
            widget=forms.Textarea(attrs={"rows": "3"}),
            empty_value=None,
        )

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        return text and text.replace("\r\n", "\n")


def visibility_field() -> forms.ChoiceField:
    """Who may read it, each word with its sentence."""
    return forms.ChoiceField(
        label="Visibility", choices=explained(VISIBILITIES), widget=forms.RadioSelect
    )


def space_field(label: str) -> forms.ChoiceField:
    """In whose space; `SpaceForm` fills the menu."""
    return forms.ChoiceField(label=label)


class SpaceForm(PageForm):
    """Asks for the space in which a repository is to be. `named`: one that its address asks for."""

    def __init__(self, request: PageRequest, *, named: str = "", **initial: Any) -> None:
        spaces = spaces_of(request.principal)
        chosen = named or spaces[0]
        super().__init__(request, owner=chosen, **initial)
        menu: Any = self.fields["owner"]
        menu.choices = choices_of(request.principal, [*dict.fromkeys([*spaces, chosen])])


def choices_of(principal: Principal, spaces: list[str]) -> list[tuple[str, str]]:
    """The menu of spaces: one's own is said to be that."""
    own = principal.user.path
    return [(path, f"{path} (you)" if path == own else path) for path in spaces]


class NewRepo(SpaceForm):
    request_serializer = CreateRepo

    owner = space_field("Owner")
    name = text_field("Name", length=most(CreateRepo, "name"), autocomplete="off")
    slug = text_field("Address", length=most(CreateRepo, "slug"), help_text=SLUG, **PLAIN)
    description = DescriptionField()
    visibility = visibility_field()


class NewFork(SpaceForm):
    owner = space_field("Fork to")


class RepoSettings(EditForm):
    request_serializer = UpdateRepo

    name = text_field("Name", length=most(UpdateRepo, "name"), autocomplete="off")
    slug = text_field(
        "Address",
        length=most(UpdateRepo, "slug"),
        help_text=f"{SLUG} Old addresses keep working until another repository takes them.",
        **PLAIN,
    )
    description = DescriptionField()
    visibility = visibility_field()
    default_branch = text_field(
        "Default branch",
        length=most(UpdateRepo, "default_branch"),
        help_text="Shown and cloned by default, and the default target of pulls.",
        list="branches",
        **PLAIN,
    )


PATTERN = "A branch name or a pattern: * matches anything but /, as in release/*."


@with_form_fields
class NewProtection(PageForm):
    request_serializer = CreateProtection

    branch = text_field(
        "Branch", length=most(CreateProtection, "branch"), help_text=PATTERN, **PLAIN
    )


@with_form_fields
class EditProtection(EditForm):
    request_serializer = UpdateProtection

    branch = text_field(
        "Branch", length=most(UpdateProtection, "branch"), help_text=PATTERN, **PLAIN
    )


class NewApprover(PageForm):
    request_serializer = AddApprover

    username = text_field("Username", length=most(AddApprover, "username"), **PLAIN)
