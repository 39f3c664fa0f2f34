"""The bytes of the live stream."""

from __future__ import annotations

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.events.frames import HEARTBEAT, OPENING, frame, frames_of
from apps.events.kinds import WORDS, AuditKind, Kind
from apps.events.models import Event
from tests.texts import LETTERS

pytestmark = pytest.mark.once


def test_the_stream_opens_with_the_two_frames_of_the_contract():
    assert OPENING == b": ok\n\nretry: 0\n\n"
    assert HEARTBEAT.startswith(b":") and HEARTBEAT.endswith(b"\n\n")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"{}", b"data: {}\n"),
        (b"", b"data: \n"),
        (b"<li>\nx\n</li>", b"data: <li>\ndata: x\ndata: </li>\n"),
        (b"a\r\nb\rc\n\nd", b"data: a\ndata: b\ndata: c\ndata: \ndata: d\n"),
        (b"a\r\n\r\nid: 9", b"data: a\ndata: \ndata: id: 9\n"),
        ("a\u2028b\u0085c\x0bd".encode(), "data: a\u2028b\u0085c\x0bd\n".encode()),
    ],
)
def test_each_line_of_the_payload_is_a_data_line(data, lines):
    assert frame(12, "reply-created", data) == b"id: 12\nevent: reply-created\n" + lines + b"\n"


def read(stream: str) -> tuple[dict[str, str], str]:
    """Parse one frame by the standard's algorithm; returns its fields and the remaining text."""
    stream = stream.replace("\r\n", "\n").replace("\r", "\n")
    text, _, rest = stream.partition("\n\n")
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    return fields, rest


@given(st.text(alphabet=LETTERS | st.sampled_from("\r\n:< id")))
def test_a_client_reads_what_was_sent_but_for_the_kind_of_line_end(text):
    fields, rest = read(frame(7, "pull-created", text.encode()).decode())
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    assert fields == {"id": "7", "event": "pull-created", "data": plain}
    assert rest == ""


def test_every_kind_has_words_of_its_own_for_people():
    assert set(WORDS) == {*Kind, *AuditKind}
    assert len(set(WORDS.values())) == len(WORDS)


def test_an_event_of_a_newer_version_is_shown_by_the_name_of_its_kind(db):
    """Otherwise such an event would end all streams after a downgrade."""
    made = {"kind": "moon-risen", "target": {"kind": "moon"}, "created_at": timezone.now()}
    row = Event.objects.create(**made)
    [rendered] = frames_of(Event.objects.filter(pk=row.pk).rows())
    assert b"moon risen" in rendered.frame(html=True)
    assert b"event: moon-risen" in rendered.frame(html=False)
