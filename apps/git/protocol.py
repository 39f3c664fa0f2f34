"""The wire format of a push and its report, as pure functions over bytes.

Ref names are decoded with `surrogateescape`, so that a report can repeat every name byte
for byte; names that are not UTF-8 are refused later, by `repo.valid_ref_name`.
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
"""Bytes; 20,000 refs whose names are as long as names may be."""
MAX_FILTER: Final = 256
"""Bytes of a filter specification, and it may combine others once: git parses it in a time that
grows with the square of its length.
"""
MOST_LINES: Final = {b"have": 131_072, b"shallow": 65_536, b"ref-prefix": 8_192, b"deepen-not": 100}
"""Lines of each kind that the request of a fetch may have: git looks through its history or its
refs for each. A client that has a million commits of another project sends 90,000 haves in the end,
all others much less.
"""
MOST_OTHERS: Final = 1000
"""All other lines together, but those that name an object: git sends a dozen. 4 million empty ones
pack into 16 KB, and would take seconds to look through.
"""

_HEADER: Final = 4
_REPORT_BAND: Final = b"\x01"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")
_OBJECTS: Final = frozenset({b"want", b"oid"})
_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{4}\Z")
_SHALLOW: Final = re.compile(r"shallow ([0-9a-f]{40})\Z")
# A name of any length would leave no room in a packet for the reason of its refusal.
_COMMAND: Final = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40}) (.{1,4096})\Z")
# They have to fit behind another command, should the first be refused.
_CAPABILITIES: Final = re.compile(rb"[ -~]{0,4096}\Z")


class Service(StrEnum):
    """The two halves of git's smart protocol: fetch and push."""

    UPLOAD_PACK = "upload-pack"
    RECEIVE_PACK = "receive-pack"


class ProtocolError(Exception):
    """The client sent something that is no push; the text may be shown to it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One ref of a push: its name, what it was, what it shall be; `ZERO` is "no such ref"."""

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
    """What a push asks for, and in `raw` the bytes that said so, flush included."""

    commands: tuple[Command, ...]
    capabilities: frozenset[str]
    shallow: tuple[str, ...]
    raw: bytes

    @property
    def atomic(self) -> bool:
        """Either all refs are moved or none."""
        return "atomic" in self.capabilities

    @property
    def sideband(self) -> bool:
        """The answer travels in band 1 of a multiplexed stream."""
        return "side-band-64k" in self.capabilities

    @property
    def wants_report(self) -> bool:
        """Without it the client reads no answer at all."""
        return not self.capabilities.isdisjoint({"report-status", "report-status-v2"})

    def without(self, refs: Container[str]) -> bytes:
        """The bytes that ask for the same push, but say nothing of these refs."""
        lines = [f"shallow {sha}" for sha in self.shallow]
        kept = [f"{c.old} {c.new} {c.ref}" for c in self.commands if c.ref not in refs]
        capabilities = " ".join(sorted(self.capabilities))
        lines += [f"{line}\0{capabilities}" for line in kept[:1]] + kept[1:]
        return b"".join(pkt(line.encode("utf-8", "surrogateescape")) for line in lines) + FLUSH


class PushParser:
    """Reads a push up to the flush that ends its command list, piece by piece.

    Holds `MAX_COMMAND_LIST` bytes and one piece at most, and raises nothing but `ProtocolError`.
    `rest` is what followed the flush in the last piece: the beginning of the pack.
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
        """Take the next bytes of the request; true once the list is complete."""
        if self._request is not None:
            raise ProtocolError("the command list has ended already")
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
        """The whole push; `ProtocolError` as long as its list has not ended."""
        if self._request is None:
            raise ProtocolError("the command list has no end")
        return self._request

    def _packet_size(self) -> int | None:
        """The size of the next packet, 0 for a flush, None while it is incomplete."""
        header = bytes(self._buffer[self._read : self._read + _HEADER])
        if len(header) < _HEADER:
            return None
        if not _LENGTH.match(header):
            raise ProtocolError("a packet has no length")
        size = int(header, 16)
        if 0 < size <= _HEADER or size > MAX_PAYLOAD + _HEADER:
            raise ProtocolError(f"a packet of length {size} does not belong here")
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
        # git obeys capabilities on any line; what is not read here, git must not see.
        if nul and self._commands:
            raise ProtocolError("capabilities belong to the first command")
        if not _CAPABILITIES.match(capabilities):
            raise ProtocolError("the capabilities are none that git has")
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
    """One packet; `ValueError` for more than `MAX_PAYLOAD` bytes or none."""
    if not 0 < len(payload) <= MAX_PAYLOAD:
        raise ValueError(f"a packet cannot hold {len(payload)} bytes")
    return b"%04x%b" % (len(payload) + _HEADER, payload)


def report(
    results: Iterable[tuple[str, str]], *, unpack: str = "ok", sideband: bool = False
) -> bytes:
    """The answer to a push: for each ref "ok" or the reason that `git push` prints beside it."""
    first = pkt(f"unpack {_one_line(unpack)}\n".encode())
    body = first + b"".join(map(pkt, _report_lines(results))) + FLUSH
    return _in_band(body) + FLUSH if sideband else body


def error_packet(text: str) -> bytes:
    """An answer to a fetch that git prints as `fatal: remote error: …`."""
    return pkt(f"ERR {_one_line(text)}".encode())


def with_refusals(
    answer: bytes, refused: Iterable[tuple[str, str]], *, sideband: bool = False
) -> bytes:
    """git's answer to the rest of a push, so that it reports these refs as well.

    An answer without a whole report, because git ended before, stays as it is.
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


def _packets(stream: bytes) -> list[bytes] | None:
    """What the packets up to a flush hold; None unless the stream ends with just that flush."""
    found: list[bytes] = []
    at = 0
    while _LENGTH.match(stream[at : at + _HEADER]):
        size = int(stream[at : at + _HEADER], 16)
        if size <= _HEADER:
            return found if size == 0 and at + _HEADER == len(stream) else None
        found.append(stream[at + _HEADER : at + size])
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
    """Raise `ProtocolError` if git would take very long to understand the request of a fetch."""
    found = Counter[bytes]()
    at = others = 0
    while _LENGTH.match(header := fetch[at : at + _HEADER]):
        size = max(int(header, 16), _HEADER)  # what is shorter has no payload
        word, _, rest = fetch[at + _HEADER : at + size].removesuffix(b"\n").partition(b" ")
        at += size
        if word in MOST_LINES:
            found[word] += 1
            if found[word] > MOST_LINES[word]:
                most = f"{MOST_LINES[word]:,} lines with {word.decode()}"
                raise ProtocolError(f"A fetch may have {most}")
        elif word not in _OBJECTS or len(rest) < len(ZERO):
            others += 1
            if others > MOST_OTHERS:
                raise ProtocolError(f"A fetch may have {MOST_OTHERS:,} lines that name no object")
        if word == b"filter":
            _check_filter(rest)


def _check_filter(spec: bytes) -> None:
    """Refuse one that is long or nested, or takes its paths from a file: git then visits a tree
    once for each path that leads to it.
    """
    plain = _decoded(spec[:MAX_FILTER])
    if len(spec) > MAX_FILTER or plain.count(b"combine:") > 1 or b"sparse:" in plain:
        most = f"{MAX_FILTER} bytes long and combine others once"
        raise ProtocolError(f"A filter may be {most}, and not be a sparse one")


def _decoded(spec: bytes) -> bytes:
    """Without the percent signs in which one filter stands inside another, however deep."""
    while (plain := unquote_to_bytes(spec)) != spec:
        spec = plain
    return spec


def advertisement(service: Service) -> bytes:
    """How the answer to `info/refs` begins: the line that names the service. git's own follows."""
    return pkt(f"# service=git-{service}\n".encode()) + FLUSH
