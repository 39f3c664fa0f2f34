"""Commits and tags as git stores them: their fields as text, whatever bytes they have."""

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
"""What git's messages come in beside UTF-8. Of Python's other codecs some take very long."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who did something and when: ISO 8601 with their own offset, "" where git has no such time."""

    name: str = ""
    email: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The header of a commit or a tag by key, each key's first line alone, and the message."""

    header: dict[bytes, bytes]
    message: str

    @classmethod
    def parse(cls, content: bytes) -> "Stored":
        """`content` may have been cut off anywhere. A message ends at a NUL, as for git."""
        head, _, message = content.partition(b"\n\n")
        header: dict[bytes, bytes] = {}
        for line in head.split(b"\n"):
            key, _, value = line.partition(b" ")
            header.setdefault(key, value)
        text = shown(message.partition(b"\0")[0], header.get(b"encoding", b""))
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
        """The person and the time of a line of the header."""
        found = _IDENT.match(self.header.get(key, b""))
        if found is None:
            return Stamp()
        name, email, seconds, offset = found.groups()
        charset = self.header.get(b"encoding", b"")
        at = moment(int(seconds), offset.decode() if offset else "+0000") if seconds else ""
        return Stamp(shown(name, charset).strip(), shown(email, charset).strip(), at)


def shown(raw: bytes, charset: bytes = b"") -> str:
    """Bytes of git as text that any database keeps: without NUL, U+FFFD for what is no text."""
    name = charset.decode("ascii", "replace").strip()
    encoding = codecs.lookup(name).name if _CHARSETS.fullmatch(name) and known(name) else "utf-8"
    return raw.decode(encoding, "replace").replace("\0", "\ufffd")


def known(charset: str) -> bool:
    """Whether Python has this one."""
    try:
        codecs.lookup(charset)
    except LookupError:
        return False
    return True


def moment(seconds: int, offset: str) -> str:
    """Seconds since 1970 as ISO 8601 with this offset (`+0130`); "" for what is in no calendar.

    An offset of a day or more counts as none.
    """
    away = dt.timedelta(hours=int(offset[1:3]), minutes=int(offset[3:]))
    zone = dt.timezone(-away if offset[0] == "-" else away) if away < dt.timedelta(1) else dt.UTC
    try:
        return dt.datetime.fromtimestamp(seconds, zone).isoformat()
    except (OSError, OverflowError, ValueError):
        return ""
