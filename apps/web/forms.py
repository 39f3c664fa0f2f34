"""The forms of the pages. Lengths are those of the API's requests; the rules are in the actions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from django import forms
from django.conf import settings
from django.db import DatabaseError
from django.http import Http404, HttpResponse, QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.accounts import rules
from apps.accounts.models import EMAIL_MAX, Theme, User
from apps.accounts.serializers import CreateInvite, CreateToken, UpdateSelf
from apps.core.changes import compare_with_page
from apps.core.durations import parse_future
from apps.core.errors import ApiError, Invalid, as_api_error, is_storage_full
from apps.core.serializers import RequestSerializer, RuleCharField
from apps.core.slugs import USERNAME_MAX
from apps.git.run import GitDiskFull
from apps.web.responses import PageRequest, render_page, typed

PREVIEW = "preview"
"""The name of the button that asks to see a text before it is sent."""
PASSWORD_MAX = 4096
"""As much as Django's own forms take."""
HINT = "At least 8 characters, not only digits, and not a common password."
NOT_YOURS = "Wrong password."


def most(request_serializer: type[RequestSerializer], name: str) -> int:
    """The length that the API allows for this property."""
    field: Any = request_serializer().fields[name]
    return int(field.max_length)


class PageForm(forms.Form):
    """A form that was sent, or a new one; an old one comes back with what was typed into it."""

    request_serializer: type[RequestSerializer] | None = None
    """The request serializer of the API that asks for the same."""
    refused = 422
    ids = "id_%s"
    """How the ids of its fields are made of their names; forms of one page need different ones."""

    def __init__(self, request: PageRequest, *, again: bool = False, **initial: Any) -> None:
        """`again`: an empty form after one that was sent.

        One that was sent to be previewed is a new one, with what was typed: nothing is done.
        """
        sent = request.POST if request.method == "POST" and not again else None
        self.is_preview = sent is not None and PREVIEW in sent
        self.old = hasattr(request, "kept")
        kept = request.kept if self.old else typed(request) if self.is_preview else {}
        data = None if self.is_preview else sent
        known = {**initial, **kept}
        super().__init__(data, initial=known, label_suffix="", auto_id=self.ids)
        self.headers: dict[str, str] = {}

    def clean(self) -> dict[str, Any]:
        """What the API's request says of each text beside its length holds here too."""
        sent = cast("dict[str, Any]", super().clean())
        fields = self.request_serializer().fields if self.request_serializer else {}
        for name, text in [*sent.items()]:
            field = fields.get(name)
            problem = field.problem(text) if text and isinstance(field, RuleCharField) else None
            if problem is not None:
                self.add_error(name, problem)
        return sent

    @property
    def status_code(self) -> int:
        """The status of the page that shows this form."""
        return self.refused if self.is_bound and self.errors else 200

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Show what an action refuses in the form; the page answers with the refusal's status."""
        try:
            yield
        except (ApiError, Http404, DatabaseError, GitDiskFull, OSError) as refusal:
            if not isinstance(refusal, ApiError | Http404) and not is_storage_full(refusal):
                raise
            error = cast("ApiError", as_api_error(refusal))
            self.is_valid()  # an action may be refused before the form was looked at
            name, colon, text = error.detail.partition(": ")
            field = name if colon and name in self.fields else None
            self.add_error(field, text if field else error.detail)
            self.refused, self.headers = error.status, error.headers

    def shown(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        """The page with this form, and the status and headers of what was refused."""
        response = render_page(request, template, form=self, status=self.status_code, **context)
        for name, value in self.headers.items():
            response[name] = value
        return response

    def problems(self) -> list[tuple[str, str, str]]:
        """What is wrong as (id of the field or "", its label, reason), top first."""
        found = [("", "", str(reason)) for reason in self.non_field_errors()]
        for bound in self:
            found += [(bound.auto_id, str(bound.label), str(reason)) for reason in bound.errors]
        return found


class EditForm(PageForm):
    """Changes something that is there: it sends along what the page has shown of it."""

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        # What was typed into an old page, or one with a preview, is shown, but not yet sent.
        if not (self.old or self.is_preview):
            compare_with_page(self)

    def changes(self) -> dict[str, Any]:
        """What its reader has changed on the page, however old that is."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


def text_field(label: str, *, length: int, **options: Any) -> forms.CharField:
    """One line of text; what is left of `options` are attributes of the input."""
    required, hint = options.pop("required", True), options.pop("help_text", "")
    widget = options.pop("widget", forms.TextInput)
    return forms.CharField(
        label=label,
        max_length=length,
        required=required,
        help_text=hint,
        widget=widget(attrs=options),
        error_messages={"required": "This field is required."},
    )


ANY = [("", "Any")]


def chosen_of(asked: QueryDict, names: Iterable[str]) -> QueryDict:
    """What a person has chosen of a form that narrows a list, as the filters of the API take it."""
    chosen = QueryDict(mutable=True)
    for name in names:
        if values := [value for value in asked.getlist(name) if value]:
            chosen.setlist(name, values)
    return chosen


def words(choices: Any) -> list[tuple[str, str]]:
    """The choices of a menu: each word as people read it."""
    return [(str(word), str(word).replace("_", " ").capitalize()) for word in choices]


def explained(texts: Mapping[Any, str]) -> list[tuple[str, SafeString]]:
    """Choices of which each has a sentence: its word, then what it means."""
    return [
        (str(word), format_html("<b>{}</b> {}", str(word).capitalize(), text))
        for word, text in texts.items()
    ]


def menu(label: str, choices: Any, **options: Any) -> forms.ChoiceField:
    """A menu of words."""
    return forms.ChoiceField(label=label, choices=words(choices), **options)


def password_field(
    label: str, autocomplete: str, *, hint: str = "", required: bool = True
) -> forms.CharField:
    """A password, exactly as it is typed."""
    field = text_field(
        label,
        length=PASSWORD_MAX,
        widget=forms.PasswordInput,
        help_text=hint,
        required=required,
        autocomplete=autocomplete,
    )
    field.strip = False
    return field


class SignIn(PageForm):
    username = text_field(
        "Username",
        length=USERNAME_MAX,
        autocomplete="username",
        autocapitalize="none",
        spellcheck="false",
    )
    password = password_field("Password", "current-password")


class Account(EditForm):
    request_serializer = UpdateSelf

    display_name = text_field(
        "Name",
        length=most(UpdateSelf, "display_name"),
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
        "to a team.",
    )
    current = password_field(
        "Your password",
        "current-password",
        required=False,
        hint="Needed only to change the e-mail address.",
    )

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not settings.SENDS_MAIL:
            del self.fields["wants_mail"]


THEMES = {
    Theme.SYSTEM: "Same as your system.",
    Theme.LIGHT: "Always dark text on a light background.",
    Theme.DARK: "Always light text on a dark background.",
}


class Appearance(PageForm):
    theme = forms.ChoiceField(label="Colours", choices=explained(THEMES), widget=forms.RadioSelect)
    has_shortcuts = forms.BooleanField(
        label="Keyboard shortcuts",
        required=False,
        help_text="Use single keys, such as / for search. Press ? to see all of them.",
    )

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not request.principal.is_signed_in:
            del self.fields["has_shortcuts"]


class TwiceForm(PageForm):
    """Asks for a new password twice: nobody sees what they type."""

    password = password_field("New password", "new-password", hint=HINT)
    again = password_field("Repeat the password", "new-password")

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if "password" in self.cleaned_data and again != self.cleaned_data["password"]:
            raise forms.ValidationError("The passwords do not match.")
        return again


class ChangePassword(TwiceForm):
    current = password_field("Current password", "current-password")
    field_order = ["current"]


class AskReset(PageForm):
    email = text_field("E-mail", length=EMAIL_MAX, widget=forms.EmailInput, autocomplete="email")


class SignUp(TwiceForm):
    username = text_field(
        "Username",
        length=USERNAME_MAX,
        help_text="Letters and digits, with a single - _ or . between them.",
        autocomplete="username",
        autocapitalize="none",
        spellcheck="false",
    )
    email = text_field("E-mail", length=EMAIL_MAX, widget=forms.EmailInput, autocomplete="email")
    password = password_field("Password", "new-password", hint=HINT)
    field_order = ["username", "email"]

    def clean(self) -> dict[str, Any]:
        """Check all fields as the action does, so that everything wrong is said at once."""
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

    def shown(self, request: PageRequest, template: str, **context: Any) -> HttpResponse:
        """The passwords stay in the form, unless one of them is what was refused."""
        stays = not {"password", "again"}.intersection(self.errors)
        for name in ("password", "again"):
            cast("forms.PasswordInput", self.fields[name].widget).render_value = stays
        return super().shown(request, template, **context)


class NewInvite(PageForm):
    request_serializer = CreateInvite
    ENDS = {"1 day": "In a day", "7 days": "In 7 days", "30 days": "In 30 days"}

    email = text_field(
        "E-mail",
        length=most(CreateInvite, "email"),
        required=False,
        widget=forms.EmailInput,
        help_text="The invited person has to sign up with this address. Leave it empty to let "
        "anyone with the link sign up.",
        autocomplete="off",
    )
    expires_at = forms.ChoiceField(label="Ends", choices=list(ENDS.items()), initial="7 days")

    def clean_expires_at(self) -> dt.datetime:
        return parse_future(self.cleaned_data["expires_at"])


class NewToken(PageForm):
    request_serializer = CreateToken
    ENDS = {"30 days": "In 30 days", "90 days": "In 90 days", "1y": "In a year", "": "Never"}

    name = text_field(
        "Name",
        length=most(CreateToken, "name"),
        help_text="What the token is for, such as the machine that uses it.",
        autocomplete="off",
    )
    expires_at = forms.ChoiceField(
        label="Ends", choices=list(ENDS.items()), required=False, initial="90 days"
    )

    def clean_expires_at(self) -> dt.datetime | None:
        chosen = self.cleaned_data["expires_at"]
        return parse_future(chosen) if chosen else None
