"""Durations, and times in the future."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.core.durations import FORM, LONG, UNITS, parse_duration, parse_future
from tests.texts import texts

pytestmark = pytest.mark.once

SECOND = dt.timedelta(seconds=1)
GOOD = {
    "0s": 0,
    "90s": 90,
    "1m": 60,
    "1M": 2_630_016,
    "1y": 31_557_600,
    "10y": 315_576_000,
    "1w": 604_800,
    "3 days": 259_200,
    "3days": 259_200,
    "1 hour": 3_600,
    "1h 30m": 5_400,
    "1h30m": 5_400,
    "  2 weeks  ": 1_209_600,
    "1 day 1 day": 172_800,
    "5 Minutes": 300,
    "2 MONTHS": 5_260_032,
    "1 sec 1 secs 1 second 1 seconds": 4,
    "1 wk 1 wks 1 yr 1 yrs": 64_324_800,
    "1500ms 1500 msec": 3,
    "500000us 500000usec": 1,
    "500000000 ns 500000000nsec": 1,
    "500000000nanos 500millis": 1,
    "1000000µs": 1,
    "1 min 1 hr 1 hrs 1 mins": 7_320,
}
BAD = ["", " ", "3", "d", "three days", "3 days ago", "-1d", "+1d", "1.5h", "1,5h", "1e3s"]
BAD += ["1 fortnight", "1 ss", "1 Ms", "1H", "1D", "10y 1s", "999999999999y", "9999999999999s"]
BAD += ["\u0663 days", "3\u00a0days\0", "1d;", "P3D"]


@pytest.mark.parametrize(("text", "seconds"), GOOD.items())
def test_a_duration_is_a_sum_of_numbers_and_units(text, seconds):
    assert parse_duration(text) == seconds * SECOND


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_duration_is_refused_in_words(text):
    with pytest.raises(ValueError, match=r"Must be a duration|is no unit"):
        parse_duration(text)


@given(st.lists(st.tuples(st.integers(0, 700), st.sampled_from("smhd")), min_size=1, max_size=5))
def test_the_parts_add_up_in_any_order(parts):
    total = sum(count * UNITS[unit] for count, unit in parts)
    for some in (parts, parts[::-1]):
        assert parse_duration(" ".join(f"{count}{unit}" for count, unit in some)) == total * SECOND


@given(st.integers(0, 3000), st.sampled_from([*LONG]))
def test_a_long_unit_is_its_short_one(count, word):
    if count * UNITS[LONG[word]] <= UNITS["y"] * 10:
        assert parse_duration(f"{count} {word}s") == parse_duration(f"{count}{LONG[word]}")


@given(texts(max_size=30))
def test_any_text_is_a_moment_to_come_or_refused(text):
    try:
        assert parse_future(text) > timezone.now() - SECOND
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "2999-01-01T00:00:00Z",
        "2999-01-01T00:00:00z",
        "2999-01-01T02:00:00+02:00",
        "2999-01-01 00:00:00+00:00",
        "2998-12-31T16:00:00.000-08:00",
    ],
)
def test_a_moment_has_an_offset_and_is_kept_in_utc(text):
    assert parse_future(text) == dt.datetime(2999, 1, 1, tzinfo=dt.UTC)


NO_MOMENTS = ["2999-01-01T00:00:00", "2999-01-01", "2999-13-01T00:00:00Z", "2999-02-30T00:00:00Z"]
NO_MOMENTS += ["2999-01-01T25:00:00Z", "2020-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00"]
NO_MOMENTS += ["9999-12-31T23:59:59-23:00", "0s", "-1d", "tomorrow", "12:00"]


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_what_is_no_moment_to_come_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_future(text)


def test_a_duration_counts_from_now():
    assert abs(parse_future("1h") - timezone.now() - dt.timedelta(hours=1)) < 5 * SECOND


@pytest.mark.parametrize("text", [*GOOD, "2030-01-31T10:00:00Z", "2030-01-31 10:00:00.5+02:00"])
def test_the_documented_form_has_what_is_taken(text):
    assert re.fullmatch(FORM, text)


UNDOCUMENTED = ["0", "", " ", "3", "d", "1 fortnight", "1H", "1 Ms", "1 ss", "2030-01-31"]
UNDOCUMENTED += ["2030-01-31T10:00:00"]


@pytest.mark.parametrize("text", UNDOCUMENTED)
def test_the_documented_form_has_not_what_is_refused(text):
    assert not re.fullmatch(FORM, text)
    with pytest.raises(ValueError):
        parse_future(text)
