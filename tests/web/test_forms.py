"""Forms have the lengths, the choices and the rules of the API's requests."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django import forms
from django.http import QueryDict

import config.urls  # noqa: F401 - the modules of pages need its converters
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.serializers import RuleCharField, StrictChoiceField, StrictIntegerField, validated
from apps.web.forms import NewToken, PageForm
from apps.web.responses import PageRequest

pytestmark = pytest.mark.once
WEB = Path(__file__).parents[2] / "apps" / "web"
OF_PAGES_ALONE = {
    "Appearance": "the API has no pages to look at",
    "PasswordReset": "a way to sign in",
    "ChangePassword": "a way to sign in",
    "NewFork": "the API has its one word in the address",
    "PageForm": "has no fields",
    "EditForm": "has no fields",
    "SignIn": "a way to sign in",
    "SignUp": "a way to sign in",
    "SpaceForm": "has no fields",
    "ExpiringForm": "has no fields",
    "TextForm": "has no fields",
    "NewPassword": "a way to sign in",
}
"""Forms without a request of the API, and why."""


def all_forms() -> list[type[PageForm]]:
    """Each form class in any module of the pages."""
    modules = [import_module(f"apps.web.{file.stem}") for file in sorted(WEB.glob("*.py"))]
    known = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    return sorted(
        (one for one in known if issubclass(one, PageForm)), key=lambda form: form.__name__
    )


COMPARED = [form for form in all_forms() if form.request_serializer]


def empty(form: type[PageForm], user: User) -> PageForm:
    request = PageRequest()
    request.method, request.principal, request.GET = "GET", Principal(user), QueryDict()
    return form(request)


def pairs(form: type[PageForm], user: User) -> list[tuple[str, Any, Any]]:
    """The fields that form and request have in common."""
    assert form.request_serializer
    wanted = form.request_serializer().fields
    return [
        (name, field, wanted[name])
        for name, field in empty(form, user).fields.items()
        if name in wanted
    ]


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_has_the_limits_of_the_request_that_it_stands_for(form, alice):
    shared = pairs(form, alice)
    assert shared
    for name, field, wanted in shared:
        if isinstance(field, forms.CharField):
            assert field.max_length == wanted.max_length, name
        if isinstance(wanted, StrictIntegerField):
            limits = (wanted.min_value, wanted.max_value)
            assert (field.min_value, field.max_value) == limits, name
        if isinstance(field, forms.ChoiceField) and isinstance(wanted, StrictChoiceField):
            choices: Any = field.choices
            offered = [str(word) for word, _ in choices]
            assert set(offered) <= set(wanted.choices), name
            assert offered == [word for word in wanted.choices if word in offered], name


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_asks_for_what_the_request_needs(form, alice):
    for name, field, wanted in pairs(form, alice):
        if wanted.required and not wanted.allow_null and not getattr(wanted, "allow_blank", False):
            assert field.required, name


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: form.__name__)
def test_a_form_refuses_the_names_that_the_request_refuses(form, alice):
    odd = "a\u202eb/../ c"
    for name, field, wanted in pairs(form, alice):
        is_text = not isinstance(field, forms.ChoiceField)
        if is_text and isinstance(wanted, RuleCharField) and wanted.problem(odd):
            request = PageRequest()
            request.method, request.principal = "POST", Principal(alice)
            request.POST = QueryDict(urlencode({name: odd}))
            sent = form(request)
            assert not sent.is_valid() and wanted.problem(odd) in sent.errors[name]


def test_every_expiry_that_a_new_token_offers_is_accepted_by_the_api():
    for end in filter(None, NewToken.ENDS):
        assert validated(NewToken.request_serializer(), {"name": "x", "expires_at": end})


def test_each_form_stands_for_a_request_or_says_why_not():
    without = {form.__name__ for form in all_forms() if not form.request_serializer}
    assert without <= set(OF_PAGES_ALONE)
    assert NewToken in COMPARED and len(COMPARED) > 15
