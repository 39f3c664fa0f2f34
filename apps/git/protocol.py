"""The wire format of a push and its report, as pure functions over bytes.

Ref names are decoded with `surrogateescape`, so that a report can repeat each name byte for byte.
`refs.valid_ref_name` refuses names that are not UTF-8 later.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

ZERO: Final = "0" * 40
FLUSH: Final = b"0000"
DELIMITER: Final = b"0001"
MAX_PAYLOAD: Final = 65516
MAX_COMMAND_LIST: Final = 8 * 1024 * 1024
"""Bytes. Enough for 20,000 refs with names of the greatest length."""
MAX_FILTER: Final = 256
"""Most bytes of a filter specification. git's time to parse one grows with the square of its
length.
"""
MOST_LINES: Final = {b"have": 131_072, b"shallow": 65_536, b"ref-prefix": 8_192, b"deepen-not": 100}
"""Most lines of each kind in a fetch request. For each such line git searches its history or its
refs. A client with a million commits of another project sends 90,000 haves; all others send far
fewer.
"""
MOST_OTHERS: Final = 1000
"""Most other lines, not counting those that name an object. git sends a dozen. 4 million empty
lines compress to 16 KB and would take seconds to parse.
"""

_HEADER: Final = 4
_REPORT_BAND: Final = b"\x01"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")
_OBJECTS: Final = frozenset({b"want", b"oid"})
_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{4}\Z")
_SHALLOW: Final = re.compile(r"shallow ([0-9a-f]{40})\Z")
# The length of a name is limited, so that a packet has room for the reason of its refusal.
_COMMAND: Final = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) (.{1,4096})\Z")
# The capabilities must fit behind another command if the first one is refused.
_CAPABILITIES: Final = re.compile(rb"[ -~]{0,4096}\Z")


class Service(StrEnum):
    """The two halves of git's smart protocol: fetch and push."""

    UPLOAD_PACK = "upload-pack"
    RECEIVE_PACK = "receive-pack"


class ProtocolError(Exception):
    """The client's request is malformed or too large. The text may be shown to the client."""


@dataclass(frozen=True, slots=True)
class Command:
    """One ref of a push with its old and new object. `ZERO` means that the ref does not exist."""

    old: str
    new: str
    ref: str

    @property
    def creates(self) -> bool:
        return self.old == ZERO

    @property
    def deletes(self) -> bool:
        return self.new == ZERO


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A parsed push request. `raw` holds its bytes, flush packet included."""

    commands: tuple[Command, ...]
    capabilities: frozenset[str]
    shallow: tuple[str, ...]
    raw: bytes

    @property
    def atomic(self) -> bool:
        """Whether git must move all refs or none."""
        return "atomic" in self.capabilities

    @property
    def sideband(self) -> bool:
        """Whether the client expects the answer in band 1 of a multiplexed stream."""
        return "side-band-64k" in self.capabilities

    @property
    def wants_report(self) -> bool:
        """Whether the client reads an answer at all."""
        return not self.capabilities.isdisjoint({"report-status", "report-status-v2"})

    def without(self, refs: Container[str]) -> bytes:
        """The bytes of the same push request without the commands for these refs."""
        lines = [f"shallow {sha}" for sha in self.shallow]
        commands = [f"{c.old} {c.new} {c.ref}" for c in self.commands if c.ref not in refs]
        capabilities = " ".join(sorted(self.capabilities))
        lines += [f"{line}\0{capabilities}" for line in commands[:1]] + commands[1:]
        return b"".join(pkt(line.encode("utf-8", "surrogateescape")) for line in lines) + FLUSH


class PushParser:
    """Parses a push request piece by piece, up to the flush packet that ends its command list.

    Buffers at most `MAX_COMMAND_LIST` bytes and one piece, and raises only `ProtocolError`. `rest`
    holds the bytes of the last piece behind the flush packet: the beginning of the pack.
    """

    def __init__(self) -> None:
        self.rest = b""
        self._buffer = bytearray()
        self._read = 0
        self._commands: list[Command] = []
        self._shallow: list[str] = []
        self._capabilities: frozenset[str] = frozenset()
        self._request: PushRequest | None = None

    def feed(self, piece: bytes) -> bool:
        """Parse the next bytes of the request; return True once the command list is complete."""
        if self._request is not None:
            raise ProtocolError("the command list is already complete")
        self._buffer += piece
        while (size := self._packet_size()) is not None:
            start, self._read = self._read, self._read + max(size, _HEADER)
            if size == 0:
                self._end()
                return True
            self._line(bytes(self._buffer[start + _HEADER : self._read]))
        return False

    @property
    def request(self) -> PushRequest:
        """The parsed request; `ProtocolError` until its command list is complete."""
        if self._request is None:
            raise ProtocolError("the command list is incomplete")
        return self._request

    def _packet_size(self) -> int | None:
        """The size of the next packet, 0 for a flush packet, None if the packet is incomplete."""
        header = bytes(self._buffer[self._read : self._read + _HEADER])
        if len(header) < _HEADER:
            return None
        if not _LENGTH.match(header):
            raise ProtocolError("a packet has no valid length")
        size = int(header, 16)
        if 0 < size <= _HEADER or size > MAX_PAYLOAD + _HEADER:
            raise ProtocolError(f"a packet has the invalid length {size}")
        if self._read + max(size, _HEADER) > MAX_COMMAND_LIST:
            raise ProtocolError("the command list is too long: push fewer refs at a time")
        return size if self._read + size <= len(self._buffer) else None

    def _line(self, payload: bytes) -> None:
        text, nul, capabilities = payload.removesuffix(b"\n").partition(b"\0")
        line = text.decode("utf-8", "surrogateescape")
        if (shallow := _SHALLOW.match(line)) and not nul:
            self._shallow.append(shallow[1])
            return
        command = _COMMAND.match(line)
        if not command:
            raise ProtocolError("expected old, new and ref")
        # git reads capabilities on any line. Those that are not parsed here must not reach git.
        if nul and self._commands:
            raise ProtocolError("only the first command may have capabilities")
        if not _CAPABILITIES.match(capabilities):
            raise ProtocolError("the capabilities are invalid")
        if nul:
            self._capabilities = frozenset(capabilities.decode().split())
        self._commands.append(Command(command[1], command[2], command[3]))

    def _end(self) -> None:
        if len({command.ref for command in self._commands}) < len(self._commands):
            raise ProtocolError("a ref is named twice")
        if "object-format=sha256" in self._capabilities:
            raise ProtocolError("only SHA-1 repositories are served")
        self.rest = bytes(self._buffer[self._read :])
        self._request = PushRequest(
            tuple(self._commands),
            self._capabilities,
            tuple(self._shallow),
            bytes(self._buffer[: self._read]),
        )


def pkt(payload: bytes) -> bytes:
    """Encode one packet; `ValueError` if the payload is empty or exceeds `MAX_PAYLOAD` bytes."""
    if not 0 < len(payload) <= MAX_PAYLOAD:
        raise ValueError(f"a packet cannot hold {len(payload)} bytes")
    return b"%04x%b" % (len(payload) + _HEADER, payload)


def report(
    results: Iterable[tuple[str, str]], *, unpack: str = "ok", sideband: bool = False
) -> bytes:
    """The answer to a push. Each ref has "ok" or a reason, which `git push` prints."""
    first = pkt(f"unpack {_one_line(unpack)}\n".encode())
    body = first + b"".join(map(pkt, _report_lines(results))) + FLUSH
    return _in_band(body) + FLUSH if sideband else body


def error_packet(text: str) -> bytes:
    """An answer to a fetch that git prints as `fatal: remote error: …`."""
    return pkt(f"ERR {_one_line(text)}".encode())


def with_refusals(
    answer: bytes, refused: Iterable[tuple[str, str]], *, sideband: bool = False
) -> bytes:
    """Add refused refs to git's answer to the other commands of a push.

    An answer with an incomplete report, because git ended early, is returned unchanged.
    """
    packets = _packets(answer)
    if packets is None:
        return answer
    if not sideband:
        return answer.removesuffix(FLUSH) + b"".join(map(pkt, _report_lines(refused))) + FLUSH
    body = b"".join(packet[1:] for packet in packets if packet[:1] == _REPORT_BAND)
    others = b"".join(pkt(packet) for packet in packets if packet[:1] != _REPORT_BAND)
    if _packets(body) is None:
        return answer
    return others + _in_band(with_refusals(body, refused)) + FLUSH


def reported_refs(answer: bytes, *, sideband: bool = False) -> dict[str, bool]:
    """The refs in git's answer to a push, and whether git has moved each. Empty if the answer has
    no complete report.
    """
    packets = _packets(answer)
    if packets is not None and sideband:
        packets = _packets(b"".join(packet[1:] for packet in packets if packet[:1] == _REPORT_BAND))
    texts = (packet.decode("utf-8", "surrogateescape") for packet in packets or [])
    lines = [text.removesuffix("\n").split(" ", 2) for text in texts]
    return {words[1]: words[0] == "ok" for words in lines if words[0] in {"ok", "ng"}}


def _packets(stream: bytes) -> list[bytes] | None:
    """The payloads of the packets; None unless the stream ends with its first flush packet."""
    payloads: list[bytes] = []
    at = 0
    while _LENGTH.match(stream[at : at + _HEADER]):
        size = int(stream[at : at + _HEADER], 16)
        if size <= _HEADER:
            return payloads if size == 0 and at + _HEADER == len(stream) else None
        payloads.append(stream[at + _HEADER : at + size])
        at += size
    return None


def _in_band(body: bytes) -> bytes:
    room = MAX_PAYLOAD - 1
    bands = (body[start : start + room] for start in range(0, len(body), room))
    return b"".join(pkt(_REPORT_BAND + band) for band in bands)


def _report_lines(results: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    for ref, result in results:
        name = ref.encode("utf-8", "surrogateescape")
        reason = _one_line(result)
        yield b"ok %b\n" % name if reason == "ok" else b"ng %b %b\n" % (name, reason.encode())


def _one_line(text: str) -> str:
    return _CONTROL.sub(" ", text).encode("utf-8", "replace").decode().strip()[:200] or "failed"


def check_fetch(fetch: bytes) -> None:
    """Raise `ProtocolError` if git would need too long to parse a fetch request."""
    FetchChecker().feed(fetch)


class FetchChecker:
    """Checks the requests of one fetch piece by piece, as they arrive, by the same limits.

    `feed` raises `ProtocolError`. It buffers at most one packet.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._counts = Counter[bytes]()
        self._others = 0

    def feed(self, piece: bytes) -> None:
        buffer, at = self._rest + piece, 0
        while _LENGTH.match(header := buffer[at : at + _HEADER]):
            size = max(int(header, 16), _HEADER)  # special packets have no payload
            if at + size > len(buffer):
                break
            self._line(buffer[at + _HEADER : at + size])
            at += size
        self._rest = buffer[at:]

    def _line(self, payload: bytes) -> None:
        word, _, rest = payload.removesuffix(b"\n").partition(b" ")
        if word in MOST_LINES:
            self._counts[word] += 1
            if self._counts[word] > MOST_LINES[word]:
                most = f"{MOST_LINES[word]:,} lines with {word.decode()}"
                raise ProtocolError(f"A fetch may have at most {most}")
        elif word not in _OBJECTS or len(rest) < len(ZERO):
            self._others += 1
            if self._others > MOST_OTHERS:
                most = f"{MOST_OTHERS:,} lines that name no object"
                raise ProtocolError(f"A fetch may have at most {most}")
        if word == b"filter":
            _check_filter(rest)


def _check_filter(spec: bytes) -> None:
    """Refuse a filter that is too long or nested, or that is sparse: for a sparse filter git visits
    a tree once for each path that leads to it.
    """
    plain = _decoded(spec[:MAX_FILTER])
    if len(spec) > MAX_FILTER or plain.count(b"combine:") > 1 or b"sparse:" in plain:
        raise ProtocolError(
            f"A filter may have at most {MAX_FILTER} bytes and one level of combine, and no sparse"
        )


def _decoded(spec: bytes) -> bytes:
    """The filter without percent-encoding, at any depth of nesting."""
    while (plain := unquote_to_bytes(spec)) != spec:
        spec = plain
    return spec


def advertisement(service: Service) -> bytes:
    """The first packets of an answer to `info/refs`: the service's name. git writes the rest."""
    return pkt(f"# service=git-{service}\n".encode()) + FLUSH
