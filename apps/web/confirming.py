"""Forms that ask for codes, and confirming a password together with a code."""

from __future__ import annotations

from django import forms

from apps.accounts.factors import PASSKEY_NAME_MAX
from apps.accounts.second_factors.actions import WRONG_CODE, use_code
from apps.site.limits import throttle_code
from apps.web.forms import (
    WRONG_CURRENT,
    ConfirmedForm,
    PageForm,
    code_field,
    password_field,
    text_field,
)
from apps.web.responses import PageRequest

SIGNED_IN = "signed in"
"""Codes of people who are signed in count apart from those at the sign-in."""


class SignInCode(PageForm):
    code = code_field()


class NewAuthenticator(PageForm):
    """The first code of a new app, and the password."""

    current = password_field("Your password", "current-password")
    code = code_field("The six digits that your app shows now.")
    field_order = ["code", "current"]


class NewPasskey(ConfirmedForm):
    name = text_field("Name", length=PASSKEY_NAME_MAX, help_text="Such as the name of the device.")
    field_order = ["name", "current", "code"]


class Signed(PageForm):
    """The browser's answer to the options of a passkey, as JSON."""

    credential = forms.CharField(max_length=10_000, widget=forms.HiddenInput)


def confirms(request: PageRequest, form: PageForm) -> bool:
    """Whether the valid form has the person's password in `current` and, if they have a second
    factor, a valid `code`, which is used up. Otherwise the form has the error; 429.
    """
    user = request.user
    if not user.check_password(form.cleaned_data["current"]):
        form.add_error("current", WRONG_CURRENT)
        return False
    if not user.has_second_factor:
        return True
    throttle_code(user, SIGNED_IN)
    if not use_code(principal=request.principal, code=form.cleaned_data["code"]):
        form.add_error("code", WRONG_CODE)
    return not form.errors
