"""The base classes of the forms of pages, and the forms of accounts, teams and repositories."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, cast

from django import forms
from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import DatabaseError
from django.http import Http404, HttpResponse
from django.utils.html import format_html

from apps.accounts import rules
from apps.accounts.models import EMAIL_MAX, Theme, User
from apps.accounts.second_factors.codes import CODE_MAX
from apps.accounts.serializers import CreateInvite, CreateToken, RotateToken, UpdateSelf
from apps.core.changes import compare_with_page
from apps.core.durations import parse_duration, parse_future
from apps.core.errors import ApiError, Invalid, as_api_error, is_storage_full
from apps.core.serializers import RequestSerializer, RuleCharField
from apps.core.slugs import USERNAME_MAX
from apps.git.run import GitDiskFull
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
from apps.teams.models import Role
from apps.teams.serializers import (
    AddMember,
    CreateTeam,
    UpdateMember,
    UpdateTeam,
)
from apps.web.responses import PageRequest, render_page, typed_values

PREVIEW = "preview"
"""The name of the button that previews a text."""
HINT = "At least 8 characters, not only digits, and not a common password."
WRONG_CURRENT = "Wrong password."
PLAIN: dict[str, Any] = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
"""Attributes of inputs for names that are not words, such as usernames and branches."""
OWN_NAME = PLAIN | {"autocomplete": "username"}


@cache
def fields_of(request_serializer: type[RequestSerializer]) -> Mapping[str, Any]:
    """The fields of a request serializer, made once: forms only read them."""
    return request_serializer().fields


class PageForm(forms.Form):
    """A new or a submitted form; an outdated or previewed one is new, with the typed values."""

    request_serializer: type[RequestSerializer] | None = None
    """The request serializer of the API for the same action. Text fields without a length take it
    from there.
    """
    refusal_status = 422
    needs_sign_in = False
    """Whether the person has to sign in at their OpenID provider before they send it again."""
    id_format = "id_%s"
    """The format of the fields' ids; the forms of one page need different ids."""

    def __init__(self, request: PageRequest, *, unbound: bool = False, **initial: Any) -> None:
        """`unbound`: a new form even for a POST, which submitted another form of the page."""
        data = request.POST if request.method == "POST" and not unbound else None
        self.is_preview = data is not None and PREVIEW in data
        self.is_outdated = hasattr(request, "restored")
        typed = typed_values(request) if self.is_preview else getattr(request, "restored", {})
        data = None if self.is_preview else data
        super().__init__(data, initial=initial | typed, label_suffix="", auto_id=self.id_format)
        self.headers: dict[str, str] = {}
        self.request_fields = fields_of(self.request_serializer) if self.request_serializer else {}
        for name, field in self.fields.items():
            length = getattr(self.request_fields.get(name), "max_length", None)
            if isinstance(field, forms.CharField) and field.max_length is None and length:
                field.max_length = length
                field.validators.append(MaxLengthValidator(length))
                field.widget.attrs |= field.widget_attrs(field.widget)

    def clean(self) -> dict[str, Any]:
        """Validate texts by the rules of the API's request as well."""
        sent = cast("dict[str, Any]", super().clean())
        for name, text in [*sent.items()]:
            field = self.request_fields.get(name)
            problem = field.problem(text) if text and isinstance(field, RuleCharField) else None
            if problem is not None:
                self.add_error(name, problem)
        return sent

    @property
    def status_code(self) -> int:
        return self.refusal_status if self.errors else 200

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show the errors of an action in the form; the page gets the status of the error."""
        try:
            yield
        except (ApiError, Http404, DatabaseError, GitDiskFull, OSError) as refusal:
            if not isinstance(refusal, ApiError | Http404) and not is_storage_full(refusal):
                raise
            error = cast("ApiError", as_api_error(refusal))
            self.is_valid()  # add_error() needs a validated form
            name, colon, text = error.detail.partition(": ")
            field = name if colon and name in self.fields else None
            self.add_error(field, text if field else error.detail)
            self.refusal_status, self.headers = error.status, error.headers

    def render_page(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        context |= {"form": self, "status": self.status_code, "headers": self.headers}
        return render_page(request, template, **context)

    def problems(self) -> list[tuple[str, str, str]]:
        """The errors as (id of the field or "", its label, reason), in the order of the page."""
        problems = [("", "", str(reason)) for reason in self.non_field_errors()]
        for bound in self:
            problems += [(bound.auto_id, str(bound.label), str(reason)) for reason in bound.errors]
        return problems


class EditForm(PageForm):
    """A form that edits something: it also submits the values that the page has shown."""

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        # The typed values of an outdated or previewed form are initial values, not submitted ones.
        if not (self.is_outdated or self.is_preview):
            compare_with_page(self)

    def changes(self) -> dict[str, Any]:
        """The values that the person has changed on the page, even on an outdated one."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


def text_field(
    label: str,
    *,
    length: int | None = None,
    required: bool = True,
    help_text: str = "",
    widget: type[forms.widgets.Input] = forms.TextInput,
    **attributes: str,
) -> forms.CharField:
    """A single-line text field; further keywords are attributes of the input."""
    return forms.CharField(
        label=label,
        max_length=length,
        required=required,
        help_text=help_text,
        widget=widget(attrs=attributes),
    )


def word_choices(choices: Any) -> list[tuple[str, str]]:
    """Choices of a menu: words of the API with a readable label."""
    return [(str(word), str(word).replace("_", " ").capitalize()) for word in choices]


def radio_field(label: str, texts: Mapping[Any, str]) -> forms.ChoiceField:
    """Radio buttons, each with a word of the API and a sentence that explains it."""
    choices = [
        (str(word), format_html("<b>{}</b> {}", str(word).capitalize(), text))
        for word, text in texts.items()
    ]
    return forms.ChoiceField(label=label, choices=choices, widget=forms.RadioSelect)


def proposal_field(label: str, texts: Mapping[str, str], proposal: str) -> forms.ChoiceField:
    """Radio buttons with sentences, one of which is proposed."""
    choices = [*texts.items()]
    return forms.ChoiceField(
        label=label, choices=choices, required=False, initial=proposal, widget=forms.RadioSelect
    )


def choice_field(label: str, words: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=word_choices(words))


def password_field(label: str, autocomplete: str, **options: Any) -> forms.CharField:
    """A password field, whose value is not trimmed. Its limit is that of Django's own forms."""
    options |= {"widget": forms.PasswordInput, "autocomplete": autocomplete}
    field = text_field(label, length=4096, **options)
    field.strip = False
    return field


class LinesField(forms.CharField):
    """A text of several lines, with LF as line ends."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        return text and text.replace("\r\n", "\n")


NAME = text_field("Name", autocomplete="off")


class SignIn(PageForm):
    username = text_field("Username", length=USERNAME_MAX, **OWN_NAME)
    password = password_field("Password", "current-password")


CODE_HELP = "The six digits that your authenticator app shows, or a recovery code."


def code_field(help_text: str = CODE_HELP, *, required: bool = True) -> forms.CharField:
    """A field for a code of the authenticator app or a recovery code."""
    options: dict[str, Any] = {"help_text": help_text, "required": required}
    attributes = PLAIN | {"autocomplete": "one-time-code"}
    return text_field("Code", length=CODE_MAX, **options, **attributes)


class ConfirmedForm(PageForm):
    """A form that asks for the password and, from people with a second factor, for a code."""

    current = password_field("Your password", "current-password")
    code = code_field()

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not request.user.has_second_factor:
            del self.fields["code"]
        if not rules.asks_password(request.user):
            del self.fields["current"]


class Account(EditForm):
    request_serializer = UpdateSelf

    display_name = text_field(
        "Name",
        required=False,
        help_text="Your name, shown beside your username.",
        autocomplete="name",
    )
    email = text_field(
        "E-mail",
        length=EMAIL_MAX,
        required=False,
        widget=forms.EmailInput,
        help_text="Used to reset your password. Others do not see it. A new "
        "address takes effect when you open the link that we send to it.",
        autocomplete="email",
    )
    wants_mail = forms.BooleanField(
        label="E-mail me about pings",
        required=False,
        help_text="When somebody mentions you, replies to you, asks for your review, or adds you "
        "to a team, and before a token of yours expires.",
    )
    current = password_field(
        "Your password",
        "current-password",
        required=False,
        help_text="Needed only to change the e-mail address.",
    )
    code = code_field(required=False)

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not request.user.has_second_factor:
            del self.fields["code"]
        if not rules.asks_password(request.user):
            del self.fields["current"]
        if not settings.SENDS_MAIL:
            del self.fields["wants_mail"]


class ConfirmDeletion(PageForm):
    """The typed name of the thing that is deleted. The action compares it."""

    confirm = text_field("Name", **PLAIN)

    def __init__(self, request: PageRequest, *, name: str) -> None:
        super().__init__(request)
        self.fields["confirm"].help_text = f"Type {name} to confirm."


class Appearance(PageForm):
    theme = radio_field(
        "Colours",
        {
            Theme.SYSTEM: "Same as your system.",
            Theme.LIGHT: "Always dark text on a light background.",
            Theme.DARK: "Always light text on a dark background.",
        },
    )
    has_shortcuts = forms.BooleanField(
        label="Keyboard shortcuts",
        required=False,
        help_text="Use single keys, such as / for search. Press ? to see all of them.",
    )

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not request.principal.is_signed_in:
            del self.fields["has_shortcuts"]


class NewPassword(PageForm):
    """A new password, typed twice because the inputs hide it."""

    password = password_field("New password", "new-password", help_text=HINT)
    again = password_field("Repeat the password", "new-password")

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if "password" in self.cleaned_data and again != self.cleaned_data["password"]:
            raise forms.ValidationError("The passwords do not match.")
        return again


class ChangePassword(NewPassword, ConfirmedForm):
    current = password_field("Current password", "current-password")
    field_order = ["current", "code"]


EMAIL = text_field("E-mail", length=EMAIL_MAX, widget=forms.EmailInput, autocomplete="email")


class PasswordReset(PageForm):
    email = EMAIL


class SignUp(NewPassword):
    username = text_field(
        "Username",
        length=USERNAME_MAX,
        help_text="Letters and digits, with a single - _ or . between them.",
        **OWN_NAME,
    )
    email = EMAIL
    password = password_field("Password", "new-password", help_text=HINT)
    field_order = ["username", "email"]

    def clean(self) -> dict[str, Any]:
        """Check all fields by the rules of the action, to show all errors at once."""
        sent = super().clean()
        user = User(username=sent.get("username", ""), email=sent.get("email", ""))
        checks: dict[str, Callable[[str], None]] = {
            "username": rules.check_username,
            "email": rules.check_email,
            "password": partial(rules.check_password, user=user),
        }
        for name, check in checks.items():
            try:
                if name in sent:
                    check(sent[name])
            except Invalid as refusal:
                self.add_error(name, refusal.detail.removeprefix(f"{name}: "))
        return sent

    def render_page(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        """Keep the passwords in the form unless one of them has an error."""
        stays = not {"password", "again"}.intersection(self.errors)
        for name in ("password", "again"):
            cast("forms.PasswordInput", self.fields[name].widget).render_value = stays
        return super().render_page(request, template, **context)


class ExpiringForm(PageForm):
    """A form for something that may end; `expires_at` is a duration, or empty for never."""

    def clean_expires_at(self) -> dt.datetime | None:
        chosen = self.cleaned_data["expires_at"]
        return parse_future(chosen) if chosen else None


class NewInvite(ExpiringForm):
    request_serializer = CreateInvite
    ENDS = {"1 day": "In a day", "7 days": "In 7 days", "30 days": "In 30 days"}

    email = text_field(
        "E-mail",
        required=False,
        widget=forms.EmailInput,
        help_text="The invited person has to sign up with this address. Leave it empty to let "
        "anyone with the link sign up.",
        autocomplete="off",
    )
    expires_at = forms.ChoiceField(label="Expires", choices=list(ENDS.items()), initial="7 days")


class NewToken(ExpiringForm):
    """A token that reads, for named repositories and 90 days, unless the person wants more."""

    request_serializer = CreateToken
    ENDS = {"30 days": "In 30 days", "90 days": "In 90 days", "1y": "In a year", "": "Never"}
    PERMISSIONS = {
        "read": "Read: clone, fetch and read. It changes nothing.",
        "write": "Write: also push, merge, and take part in threads, pulls and reviews.",
        "admin": "Everything that you may do: also settings, members, tokens and deletions.",
    }
    REACHES = {
        "listed": "Only the repositories below, and nothing else.",
        "all": "All that you have access to, now and later.",
    }

    name = text_field(
        "Name",
        help_text="What the token is for, such as the machine that uses it.",
        autocomplete="off",
    )
    permission = proposal_field("Permission", PERMISSIONS, "read")
    reach = proposal_field("Valid for", REACHES, "listed")
    repo_paths = forms.CharField(
        label="Repositories",
        required=False,
        widget=forms.Textarea(attrs={"rows": "3"}),
        help_text="One path a line, such as teams/acme/api.",
    )
    expires_at = forms.ChoiceField(
        label="Expires",
        choices=list(ENDS.items()),
        required=False,
        initial="90 days",
        help_text="You get a ping a week before.",
    )

    def clean_permission(self) -> str:
        return self.cleaned_data["permission"] or "read"

    def clean_repo_paths(self) -> list[str] | None:
        return self.cleaned_data["repo_paths"].split() or None

    def clean(self) -> dict[str, Any]:
        """Refuse a reach that contradicts the repositories."""
        sent = super().clean()
        reach, paths = sent.pop("reach", ""), sent.get("repo_paths")
        if reach == "listed" and not paths:
            self.add_error("repo_paths", "Name at least one, or let the token be valid for all.")
        if reach == "all" and paths:
            self.add_error("repo_paths", "The token is to be valid for all: remove these.")
        return sent


class RotateTokenForm(PageForm):
    request_serializer = RotateToken
    OVERLAPS = {
        "0s": "At once",
        "1 hour": "In an hour",
        "24 hours": "In a day",
        "72 hours": "In three days",
    }

    keep_old = forms.ChoiceField(
        label="The old text stops working",
        choices=list(OVERLAPS.items()),
        required=False,
        initial="24 hours",
        help_text="Until then, both work. Choose “at once” if somebody else may know the old text.",
    )

    def clean_keep_old(self) -> dt.timedelta:
        return parse_duration(self.cleaned_data["keep_old"] or "0s")


TEAM_SLUG = "Lower-case letters and digits, with a single - _ or . between them."


class NewTeam(PageForm):
    request_serializer = CreateTeam

    name = NAME
    slug = text_field("Address", help_text=TEAM_SLUG, **PLAIN)


class TeamSettings(EditForm):
    request_serializer = UpdateTeam

    name = NAME
    slug = text_field(
        "Address",
        help_text=f"{TEAM_SLUG} Old addresses keep working; other teams may take one after "
        "90 days.",
        **PLAIN,
    )
    second_factor_required = forms.BooleanField(
        label="Require a second factor",
        required=False,
        help_text="Members without one are signed out, and have no access until they add one; "
        "neither have their tokens. Only staff can change this.",
    )

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not request.principal.is_staff:
            del self.fields["second_factor_required"]


class NewMember(PageForm):
    request_serializer = AddMember

    username = text_field("Username", **PLAIN)
    role = choice_field("Role", Role)


class SetRole(PageForm):
    request_serializer = UpdateMember

    role = choice_field("Role", Role)


VISIBILITIES = {
    Visibility.PRIVATE: "Only its owner, or members of the owning team, and staff can read it.",
    Visibility.INTERNAL: "Everybody who is signed in can read it.",
    Visibility.PUBLIC: "Everybody can read it, even without signing in.",
}
REPO_SLUG = "The end of its address: lower-case letters, digits, and . _ - between them."


DESCRIPTION = LinesField(
    label="Description",
    required=False,
    widget=forms.Textarea(attrs={"rows": "3"}),
    empty_value=None,
)


class SpaceForm(PageForm):
    """A form with a menu `owner` for a new repository; `preselected`: that of the query."""

    def __init__(self, request: PageRequest, *, preselected: str = "", **initial: Any) -> None:
        own, spaces = request.principal.user.path, spaces_of(request.principal)
        chosen = preselected or spaces[0]
        super().__init__(request, owner=chosen, **initial)
        menu: Any = self.fields["owner"]
        paths = dict.fromkeys([*spaces, chosen])
        menu.choices = [(path, f"{path} (you)" if path == own else path) for path in paths]


class NewRepo(SpaceForm):
    request_serializer = CreateRepo

    owner = forms.ChoiceField(label="Owner")
    name = NAME
    slug = text_field("Address", help_text=REPO_SLUG, **PLAIN)
    description = DESCRIPTION
    visibility = radio_field("Visibility", VISIBILITIES)


class NewFork(SpaceForm):
    owner = forms.ChoiceField(label="Fork to")


class RepoSettings(EditForm):
    request_serializer = UpdateRepo

    name = NAME
    slug = text_field(
        "Address",
        help_text=f"{REPO_SLUG} Old addresses keep working until another repository takes them.",
        **PLAIN,
    )
    description = DESCRIPTION
    visibility = radio_field("Visibility", VISIBILITIES)
    default_branch = text_field(
        "Default branch",
        help_text="Shown and cloned by default, and the default target of pulls.",
        list="branches",
        **PLAIN,
    )


@with_form_fields
class NewProtection(PageForm):
    request_serializer: type[RequestSerializer] = CreateProtection

    branch = text_field(
        "Branch",
        help_text="A branch name or a pattern: * matches anything but /, as in release/*.",
        **PLAIN,
    )


class EditProtection(EditForm, NewProtection):
    request_serializer = UpdateProtection


class NewApprover(PageForm):
    request_serializer = AddApprover

    username = text_field("Username", **PLAIN)
