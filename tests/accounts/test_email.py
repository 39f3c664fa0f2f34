"""The form of e-mail addresses in the OpenAPI document is the form that requests are checked by."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.accounts.serializers import Email

pytestmark = pytest.mark.once


def is_taken(email: str) -> bool:
    try:
        validate_email(email)
    except ValidationError:
        return False
    return True


TAKEN = ["carol@example.org", "c.a+r_o-l@mail.example.org", "carol@b\u00fccher.example"]
TAKEN += ["carol@xn--bcher-kva.xn--p1ai", "carol@localhost", "carol@[127.0.0.1]", "carol@[::1]"]
TAKEN += ['"a@b"@example.org']


@pytest.mark.parametrize("email", TAKEN)
def test_the_documented_form_has_the_addresses_that_are_taken(email):
    assert is_taken(email)
    assert re.fullmatch(Email.pattern, email)


REFUSED = ["carol", "@example.org", "carol@", "carol@example", "carol@example.o", "carol@example.1"]
REFUSED += ["carol@-example.org", "carol@example..org", "carol@example.org.", "carol@exam ple.org"]
REFUSED += [".carol@example.org", "carol.@example.org", "a b@example.org", "c\u00e4rol@example.org"]
REFUSED += ["carol@[example]"]


@pytest.mark.parametrize("email", REFUSED)
def test_the_documented_form_has_no_address_that_is_refused(email):
    assert not is_taken(email)
    assert not re.fullmatch(Email.pattern, email)


@given(st.emails())
def test_the_documented_form_has_any_address_that_is_taken(email):
    assume(is_taken(email))
    assert re.fullmatch(Email.pattern, email)
