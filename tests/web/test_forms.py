"""Forms ask for what the API asks for: the same lengths, the same choices."""

import pytest

from apps.core.serializers import validated
from apps.web import forms
from apps.web.forms import PageForm
from apps.web.responses import PageRequest

pytestmark = pytest.mark.once


def all_forms():
    known = [form for form in vars(forms).values() if isinstance(form, type)]
    return [form for form in known if issubclass(form, PageForm) and form.request_serializer]


def empty(form):
    visit = PageRequest()
    visit.method = "GET"
    return form(visit)


@pytest.mark.parametrize("form", all_forms(), ids=lambda form: form.__name__)
def test_a_form_has_the_limits_of_the_input_that_it_stands_for(form):
    wanted = form.request_serializer().fields
    shared = {name: field for name, field in empty(form).fields.items() if name in wanted}
    assert shared
    for name, field in shared.items():
        assert field.required == (wanted[name].required and not wanted[name].allow_null), name
        if hasattr(field, "max_length"):
            assert field.max_length == wanted[name].max_length, name


def test_every_expiry_that_a_new_token_offers_is_accepted_by_the_api():
    for end in filter(None, forms.NewToken.ENDS):
        assert validated(forms.NewToken.request_serializer(), {"name": "x", "expires_at": end})


def test_there_are_forms_to_compare():
    assert forms.NewToken in all_forms()
