"""Strict requests: nothing is converted, and refusals are one line."""

from __future__ import annotations

from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.core.json import dumps, loads
from apps.core.serializers import (
    RequestSerializer,
    RuleCharField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictIntegerField,
    validated,
)
from tests.texts import texts

pytestmark = pytest.mark.once


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Wheel(RequestSerializer):
    size = StrictIntegerField(min_value=1, max_value=9)


class Cart(RequestSerializer):
    name = StrictCharField(max_length=5)
    note = StrictCharField(max_length=5, allow_blank=True, required=False, allow_null=True)
    color = StrictChoiceField(Color, required=False)
    loud = StrictBooleanField(required=False)
    wheels = Wheel(many=True, required=False)
    tag = RuleCharField(
        problem=lambda text: "No x." if "x" in text else None, max_length=5, required=False
    )


def refusal(body: dict[str, object]) -> tuple[str, str]:
    with pytest.raises(Invalid) as refused:
        validated(Cart(), {"name": "a", **body})
    return refused.value.code, refused.value.detail


GOOD = [
    {"name": "a"},
    {"name": " a "},
    {"name": "\U0001f4a3" * 5},
    {"name": "a", "note": ""},
    {"name": "a", "note": None},
    {"name": "a", "note": " "},
    {"name": "a", "color": "blue"},
    {"name": "a", "loud": False},
    {"name": "a", "wheels": []},
    {"name": "a", "wheels": [{"size": 3}, {"size": 9}]},
]


@pytest.mark.parametrize("body", GOOD)
def test_what_fits_comes_through_as_it_was_sent(body):
    assert validated(Cart(), body) == body


def test_an_integral_float_is_an_integer():
    sized = validated(Cart(), {"name": "a", "wheels": [{"size": 3.0}]})["wheels"][0]["size"]
    assert (sized, type(sized)) == (3, int)


BAD = {
    "name: This field is required.": {"name": ...},
    "name: May not be blank.": {"name": ""},
    "name: Not a valid string.": {"name": 1},
    "name: This field may not be null.": {"name": None},
    "name: Ensure this field has no more than 5 characters.": {"name": "123456"},
    "name: Null characters are not allowed.": {"name": "a\0"},
    "note: Not a valid string.": {"note": True},
    'color: "green" is not one of red, blue.': {"color": "green"},
    r'color: "a\nb\"" is not one of red, blue.': {"color": 'a\nb"'},
    f'color: "{"a" * 100}…" is not one of red, blue.': {"color": "a" * 101},
    "color: This is not one of red, blue.": {"color": 1},
    "color: This field may not be null.": {"color": None},
    "loud: Must be a valid boolean.": {"loud": "true"},
    "tag: No x.": {"tag": "x"},
    "wheels[1].size: A valid integer is required.": {"wheels": [{"size": 1}, {"size": "1"}]},
    "wheels[0].size: Ensure this value is less than or equal to 9.": {"wheels": [{"size": 10}]},
    "wheels[0].size: This field is required.": {"wheels": [{}]},
    'wheels: Expected a list of items but got type "str".': {"wheels": "x"},
    "wheels[0]: Invalid data. Expected a dictionary, but got int.": {"wheels": [1]},
}


@pytest.mark.parametrize(("detail", "body"), BAD.items())
def test_what_does_not_fit_is_refused_by_name_and_reason(detail, body):
    sent = {"name": "a", **body}
    sent = {name: value for name, value in sent.items() if value is not ...}
    with pytest.raises(Invalid) as refused:
        validated(Cart(), sent)
    assert (refused.value.code, refused.value.detail) == ("validation_failed", detail)


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_the_properties():
    _, detail = refusal({"loud": 1, "name": "", "color": "x"})
    assert detail.index("name: ") < detail.index("color: ") < detail.index("loud: ")
    assert "\n" not in detail


@pytest.mark.parametrize("wrong", ["1", 1.5, True, None, [], {}, 10**30, -(10**30), 1e308])
def test_what_is_no_integer_in_bounds_is_refused(wrong):
    assert refusal({"wheels": [{"size": wrong}]})[0] == "validation_failed"


@pytest.mark.parametrize("wrong", ["x", {}, 1, [1], ["x"], [None], [[]]])
def test_what_is_no_list_of_objects_is_refused(wrong):
    assert refusal({"wheels": wrong})[0] == "validation_failed"


def test_unknown_properties_are_refused_by_name_also_deep_inside():
    code, detail = refusal({"z": 1, "b": 2})
    assert code == "unknown_field"
    assert detail == 'Unknown: "b", "z". Known: name, note, color, loud, wheels, tag.'
    assert refusal({"wheels": [{"size": 1, "rim": 2}]})[0] == "unknown_field"
    assert len(refusal({f"{number:0300}": 1 for number in range(100)})[1]) < 1500


def test_a_request_without_properties_says_so():
    class Nothing(RequestSerializer):
        pass

    with pytest.raises(Invalid, match="takes no properties"):
        validated(Nothing(), {"a": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
    max_leaves=5,
)
SOME = st.fixed_dictionaries({}, optional=dict.fromkeys([*Cart().fields, "other"], JSON))


@given(SOME)
def test_any_body_is_parsed_or_refused_in_one_line(body):
    try:
        assert set(validated(Cart(), body)) == set(body)
    except Invalid as refused:
        assert "\n" not in refused.detail


@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_a_value_error(text):
    try:
        loads(text)
    except ValueError:
        return
    dumps(loads(text))
