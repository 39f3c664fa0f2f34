"""Asks a signed-in person again for the password, and for a second factor if they have one."""

from __future__ import annotations

from apps.accounts.second_factors.actions import WRONG_CODE, use_code
from apps.site.limits import throttle_code
from apps.web.forms import WRONG_CURRENT, PageForm
from apps.web.responses import PageRequest

SIGNED_IN = "signed in"
"""Codes of people who are signed in count apart from those at the sign-in."""


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
