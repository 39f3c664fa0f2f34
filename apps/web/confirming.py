"""Forms that ask for codes, and confirming a password together with a code."""

from __future__ import annotations

import time
from typing import Any

from django import forms
from django.conf import settings

from apps.accounts.factors import PASSKEY_NAME_MAX
from apps.accounts.rules import asks_password
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

CONFIRMED_AT = "confirmed_at"
"""Key of a session for the time at which the person last signed in at their provider."""
CONFIRMED_SECONDS = 600
"""Seconds for which that replaces the password of the person."""
SIGNED_IN = "signed in"
"""Codes of people who are signed in count apart from those at the sign-in."""


class SignInCode(PageForm):
    code = code_field()


class NewAuthenticator(PageForm):
    """The first code of a new app, and the password."""

    current = password_field("Your password", "current-password")
    code = code_field("The six digits that your app shows now.")
    field_order = ["code", "current"]

    def __init__(self, request: PageRequest, **initial: Any) -> None:
        super().__init__(request, **initial)
        if not asks_password(request.user):
            del self.fields["current"]


class NewPasskey(ConfirmedForm):
    name = text_field("Name", length=PASSKEY_NAME_MAX, help_text="Such as the name of the device.")
    field_order = ["name", "current", "code"]


class Signed(PageForm):
    """The browser's answer to the options of a passkey, as JSON."""

    credential = forms.CharField(max_length=10_000, widget=forms.HiddenInput)


def confirms(request: PageRequest, form: PageForm) -> bool:
    """Whether the valid form has the person's password in `current` and, if they have a second
    factor, a valid `code`, which is used up. Otherwise the form has the error; 429.

    People without a password must have signed in at their provider within `CONFIRMED_SECONDS`.
    """
    user = request.user
    if not asks_password(user):
        if request.session.get(CONFIRMED_AT, 0) < time.time() - CONFIRMED_SECONDS:
            form.needs_sign_in = True
            form.add_error(None, f"Sign in by {settings.OIDC_NAME} again, to confirm it is you.")
            return False
    elif not user.check_password(form.cleaned_data["current"]):
        form.add_error("current", WRONG_CURRENT)
        return False
    if not user.has_second_factor:
        return True
    throttle_code(user, SIGNED_IN)
    if not use_code(principal=request.principal, code=form.cleaned_data["code"]):
        form.add_error("code", WRONG_CODE)
    return not form.errors
