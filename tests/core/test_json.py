"""The JSON writer."""

from __future__ import annotations

import datetime as dt
import uuid

import orjson
import pytest

from apps.core.access import Level
from apps.core.json import dumps, loads_body, timestamp
from apps.teams.models import Role

pytestmark = pytest.mark.once

NOON = dt.datetime(2026, 1, 2, 12, 0, tzinfo=dt.UTC)


def test_timestamps_are_utc_with_z_and_microseconds():
    eastern = dt.timezone(dt.timedelta(hours=-5))
    assert timestamp(NOON) == "2026-01-02T12:00:00.000000Z"
    assert timestamp(NOON.astimezone(eastern)) == timestamp(NOON)
    assert dumps({"at": NOON}) == b'{"at":"2026-01-02T12:00:00.000000Z"}'


@pytest.mark.parametrize("microsecond", [0, 1, 100_000, 999_999])
@pytest.mark.parametrize("hours", [-5, 0, 2])
@pytest.mark.parametrize("beside", [None, NOON, NOON + dt.timedelta(microseconds=7)])
def test_times_are_written_alike_whatever_stands_beside_them(microsecond, hours, beside):
    zone = dt.timezone(dt.timedelta(hours=hours))
    moment = NOON.replace(microsecond=microsecond).astimezone(zone)
    text = 'at 12:00:00Z"'
    written = orjson.loads(dumps([moment, beside, text]))
    assert written == [timestamp(moment), beside and timestamp(beside), text]


def test_a_naive_time_is_never_written_as_if_it_were_utc(settings):
    """Such a time would be local; this project uses none."""
    assert settings.USE_TZ
    assert settings.TIME_ZONE == "UTC"


def test_what_records_are_made_of_is_known():
    token = uuid.UUID("00000000-0000-0000-0000-000000000001")
    made = dumps({"uuid": token, "role": Role.OWNER, "level": Level.READ, "é": None})
    assert made == (
        b'{"uuid":"00000000-0000-0000-0000-000000000001","role":"owner","level":1,"\xc3\xa9":null}'
    )


def test_what_is_no_json_is_a_defect():
    with pytest.raises(TypeError):
        dumps({"x": object()})


def test_a_key_that_is_repeated_is_named():
    with pytest.raises(ValueError, match='"a" more than once'):
        loads_body(b'{"name": [{"inner": {"a": 1, "b": 2, "a": 1}}]}')


def test_every_answer_of_the_api_has_utc_timestamps(sample, db):
    found = sample.api("alice").get("/teams/acme/repos/private/threads/1").gives()
    times = [value for name, value in found.items() if name.endswith("_at") and value]
    assert len(times) > 2
    for text in times:
        moment = dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=dt.UTC)
        assert timestamp(moment) == text
