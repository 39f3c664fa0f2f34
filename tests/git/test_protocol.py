"""apps/git/protocol.py: pkt-lines of valid and hostile pushes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.git.protocol import (
    FLUSH,
    MAX_COMMAND_LIST,
    MAX_PAYLOAD,
    ZERO,
    Command,
    ProtocolError,
    PushParser,
    PushRequest,
    Service,
    advertisement,
    pkt,
    report,
    reported_refs,
    with_refusals,
)
from tests.texts import texts

pytestmark = pytest.mark.once

A, B = "a" * 40, "b" * 40

shas = st.text("0123456789abcdef", min_size=40, max_size=40)
names = st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), min_size=1)
commands = st.builds(Command, old=shas, new=shas, ref=names.map("refs/heads/".__add__))
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1).filter(
    "object-format=sha256".__ne__
)


def encode(wanted: list[Command], capabilities: str = "", shallow: tuple[str, ...] = ()) -> bytes:
    lines = [f"{c.old} {c.new} {c.ref}".encode("utf-8", "surrogateescape") for c in wanted]
    lines[:1] = [line + b"\0" + capabilities.encode() for line in lines[:1]]
    return b"".join(map(pkt, [*(f"shallow {sha}".encode() for sha in shallow), *lines])) + FLUSH


def parse(stream: bytes, size: int = 65536) -> PushRequest:
    parser = PushParser()
    for start in range(0, len(stream), size):
        if parser.feed(stream[start : start + size]):
            break
    return parser.request


@given(
    st.lists(commands, min_size=1, max_size=8, unique_by=lambda c: c.ref),
    st.lists(words, max_size=4),
    st.lists(shas, max_size=2),
    st.integers(1, 300),
)
def test_a_push_is_read_alike_in_pieces_of_any_size(
    wanted: list[Command], capabilities: list[str], shallow: list[str], size: int
) -> None:
    stream = encode(wanted, " ".join(capabilities), tuple(shallow))

    request = parse(stream, size)

    assert request == PushRequest(
        tuple(wanted), frozenset(capabilities), tuple(shallow), raw=stream
    )


@given(
    st.lists(commands, min_size=1, max_size=8, unique_by=lambda c: c.ref),
    st.lists(words, max_size=4),
    st.lists(shas, max_size=2),
    st.integers(0, 255),
)
def test_a_push_without_some_of_its_refs_asks_for_the_others(
    wanted: list[Command], capabilities: list[str], shallow: list[str], chosen: int
) -> None:
    request = parse(encode(wanted, " ".join(capabilities), tuple(shallow)))
    left_out = {c.ref for place, c in enumerate(wanted) if chosen >> place & 1}

    others = parse(request.without(left_out))

    assert others.commands == tuple(c for c in wanted if c.ref not in left_out)
    assert others.shallow == request.shallow
    assert others.capabilities == (request.capabilities if others.commands else frozenset())


@given(st.lists(st.binary(max_size=200) | st.sampled_from([FLUSH, b"0001", b"0004", b"00"])))
def test_garbage_is_a_protocol_error_or_nothing(pieces: list[bytes]) -> None:
    parser = PushParser()
    try:
        ended = any(parser.feed(piece) for piece in pieces)
    except ProtocolError:
        return
    assert not ended or parser.request.raw.endswith(FLUSH)


@given(st.binary(max_size=200), st.booleans())
def test_a_packet_with_any_payload_is_a_protocol_error_or_a_command(
    payload: bytes, prefixed: bool
) -> None:
    line = f"{A} {B} ".encode() * prefixed + (payload or b"x")
    try:
        request = parse(pkt(line) + FLUSH)
    except ProtocolError:
        return
    assert len(request.commands) + len(request.shallow) == 1


@pytest.mark.parametrize(
    "stream",
    [
        b"0001",
        b"0003",
        b"0004",
        b"+00f",
        b" 0x1",
        b"fff1",
        pkt(f"{A} {B}".encode()),
        pkt(f"{A.upper()} {B} refs/heads/x".encode()),
        pkt(f"{A} {B} refs/heads/{'x' * 4096}".encode()),
        pkt(f"{A} {B} refs/heads/x\ny".encode()),
        pkt(b"push-cert\0atomic"),
        pkt(f"shallow {A}\0atomic".encode()),
        pkt(f"{A} {B} refs/heads/x".encode()) + pkt(f"{A} {B} refs/heads/y\0atomic".encode()),
        encode([Command(A, B, "refs/heads/x"), Command(B, A, "refs/heads/x")]),
        encode([Command(A, B, "refs/heads/x")], "object-format=sha256"),
    ],
)
def test_what_is_no_push_is_refused(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        PushParser().feed(stream)


def test_a_list_without_an_end_is_refused_at_its_limit() -> None:
    parser, given = PushParser(), 0
    line = pkt(f"{A} {B} refs/heads/{'x' * 4000}".encode())
    with pytest.raises(ProtocolError, match="too long"):
        for _ in range(MAX_COMMAND_LIST):
            given += len(line)
            parser.feed(line)
    assert MAX_COMMAND_LIST < given <= MAX_COMMAND_LIST + len(line)


def test_a_list_that_was_cut_off_has_no_request() -> None:
    parser = PushParser()
    assert not parser.feed(encode([Command(A, B, "refs/heads/x")])[:-1])
    with pytest.raises(ProtocolError, match="incomplete"):
        _ = parser.request


def test_the_pack_after_the_list_is_left_alone() -> None:
    parser = PushParser()
    stream = encode([Command(A, B, "refs/heads/x")], " report-status atomic side-band-64k\n")

    assert parser.feed(stream + b"PACK...")

    assert parser.rest == b"PACK..."
    assert parser.request.raw == stream
    expected = (True, True, True)
    assert (parser.request.atomic, parser.request.sideband, parser.request.wants_report) == expected


def test_a_lone_flush_is_a_push_of_nothing() -> None:
    request = parse(FLUSH)
    assert request.commands == ()
    assert not (request.atomic or request.sideband or request.wants_report)


def test_a_name_that_is_not_utf8_comes_back_byte_for_byte() -> None:
    (command,) = parse(pkt(f"{A} {B} refs/heads/".encode() + b"\xff\n") + FLUSH).commands
    assert b"ng refs/heads/\xff malformed\n" in report([(command.ref, "malformed")])


def test_a_command_tells_creation_and_deletion() -> None:
    assert Command(ZERO, A, "refs/heads/x").creates
    assert Command(A, ZERO, "refs/heads/x").deletes
    assert not (Command(A, B, "refs/heads/x").creates or Command(A, B, "refs/heads/x").deletes)


def test_a_packet_holds_neither_nothing_nor_too_much() -> None:
    for size in (0, MAX_PAYLOAD + 1):
        with pytest.raises(ValueError, match="cannot hold"):
            pkt(bytes(size))
    assert pkt(bytes(MAX_PAYLOAD))[:4] == b"fff0"


def test_a_report_names_each_ref_and_keeps_its_reason_on_one_line() -> None:
    answer = report([("refs/heads/a", "ok"), ("refs/heads/b", "no\nway")])
    assert answer == (
        pkt(b"unpack ok\n") + pkt(b"ok refs/heads/a\n") + pkt(b"ng refs/heads/b no way\n") + FLUSH
    )


@given(st.lists(st.tuples(names, texts()), max_size=4), st.integers(1, 400))
def test_a_report_in_a_side_band_holds_the_plain_report(
    results: list[tuple[str, str]], times: int
) -> None:
    stream = report(results * times, unpack="odd", sideband=True)
    plain, at = b"", 0
    while size := int(stream[at : at + 4], 16):
        assert stream[at + 4] == 1
        plain, at = plain + stream[at + 5 : at + size], at + size
    assert stream[at:] == FLUSH
    assert plain == report(results * times, unpack="odd")


RESULTS = st.lists(st.tuples(names, texts()), max_size=4)


@given(RESULTS, RESULTS, st.booleans(), st.integers(1, 400))
def test_refusals_join_the_report_that_git_gives_of_the_rest(
    results: list[tuple[str, str]], refused: list[tuple[str, str]], sideband: bool, times: int
) -> None:
    answer = report(results * times, unpack="odd", sideband=sideband)
    both = report([*results * times, *refused], unpack="odd", sideband=sideband)
    assert with_refusals(answer, refused, sideband=sideband) == both
    progress = pkt(b"\x02counting") if sideband else b""
    assert with_refusals(progress + answer, refused, sideband=sideband) == progress + both


@pytest.mark.parametrize("sideband", [False, True])
def test_an_answer_that_breaks_off_stays_as_it_is(sideband: bool) -> None:
    whole = report([("refs/heads/a", "ok")], sideband=sideband)
    inner = pkt(b"\x01" + pkt(b"unpack ok\n")) + FLUSH
    for answer in (b"", whole[:-1], whole[:-4], whole + b"x", b"fatal: gone", inner * sideband):
        assert with_refusals(answer, [("refs/heads/b", "no")], sideband=sideband) == answer


def test_an_advertisement_names_its_service() -> None:
    assert advertisement(Service.UPLOAD_PACK) == b"001e# service=git-upload-pack\n0000"


@pytest.mark.parametrize("sideband", [False, True])
def test_a_report_says_of_each_ref_whether_it_has_moved(sideband):
    results = {"refs/heads/a\u3000b": "failed to update ref", "refs/heads/c": "ok"}
    answer = report(results.items(), sideband=sideband)
    moved = reported_refs(answer, sideband=sideband)
    assert moved == {"refs/heads/a\u3000b": False, "refs/heads/c": True}
    assert reported_refs(answer[:-4], sideband=sideband) == {}
