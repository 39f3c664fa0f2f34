"""Parses commit and tag objects into text, also from bytes that are not valid text."""

import codecs
import datetime as dt
import re
from dataclasses import dataclass
from typing import Final

_IDENT: Final = re.compile(rb"([^<]*)<([^>]*)>?[ ]*(-?[0-9]+)?[ ]*([+-][0-9]{4})?")
_CHARSETS: Final = re.compile(
    r"(iso-?8859-?[0-9]+|latin-?1|(windows-|cp)125[0-9]|koi8-[ru]|shift[-_]jis|euc-(jp|kr)|gb18030"
    r"|gbk|gb2312|big5)",
    re.IGNORECASE,
)
"""Encodings of messages besides UTF-8. Some of Python's other codecs are very slow."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A person and a time of a commit or tag. `at` is ISO 8601 with an offset, "" if invalid."""

    name: str = ""
    email: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The header of a commit or tag, with the first line of each key, and its message."""

    header: dict[bytes, bytes]
    message: str

    @classmethod
    def parse(cls, content: bytes) -> "Stored":
        """Parse an object that may be cut off. As in git, the message ends at a NUL."""
        head, _, message = content.partition(b"\n\n")
        header: dict[bytes, bytes] = {}
        for line in head.split(b"\n"):
            key, _, value = line.partition(b" ")
            header.setdefault(key, value)
        text = decode_text(message.partition(b"\0")[0], header.get(b"encoding", b""))
        return cls(header, text)

    @property
    def subject(self) -> str:
        """The first paragraph of the message as one line, as git shows it."""
        lines: list[str] = []
        for line in self.message.split("\n"):
            if line.strip():
                lines.append(line.rstrip())
            elif lines:
                break
        return " ".join(lines)

    def stamp(self, key: bytes) -> Stamp:
        """The person and the time in a header line, such as `author`."""
        match = _IDENT.match(self.header.get(key, b""))
        if match is None:
            return Stamp()
        name, email, seconds, offset = match.groups()
        charset = self.header.get(b"encoding", b"")
        at = moment(int(seconds), offset.decode() if offset else "+0000") if seconds else ""
        return Stamp(decode_text(name, charset).strip(), decode_text(email, charset).strip(), at)


def decode_text(raw: bytes, charset: bytes = b"") -> str:
    """Decode bytes of git to text that any database stores. U+FFFD replaces NUL and bad bytes."""
    name = charset.decode("ascii", "replace").strip()
    is_charset = _CHARSETS.fullmatch(name) and is_known_charset(name)
    encoding = codecs.lookup(name).name if is_charset else "utf-8"
    return raw.decode(encoding, "replace").replace("\0", "\ufffd")


def is_known_charset(charset: str) -> bool:
    """Whether Python has a codec for this charset."""
    try:
        codecs.lookup(charset)
    except LookupError:
        return False
    return True


def moment(seconds: int, offset: str) -> str:
    """Seconds since 1970 as ISO 8601 with an offset such as `+0130`; "" if out of range.

    UTC replaces an offset of a day or more.
    """
    away = dt.timedelta(hours=int(offset[1:3]), minutes=int(offset[3:]))
    zone = dt.timezone(-away if offset[0] == "-" else away) if away < dt.timedelta(1) else dt.UTC
    try:
        return dt.datetime.fromtimestamp(seconds, zone).isoformat()
    except (OSError, OverflowError, ValueError):
        return ""
