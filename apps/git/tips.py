"""Reads the commits and annotated tags of moved refs, so that they can be stored as rows.

Objects are parsed into text, also from bytes that are not valid text.
"""

import codecs
import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from apps.git.repo import GitRepo, check_shas
from apps.git.run import GitError, GitTooLarge

_IDENT: Final = re.compile(rb"([^<]*)<([^>]*)>?[ ]*(-?[0-9]+)?[ ]*([+-][0-9]{4})?")
_CHARSETS: Final = re.compile(
    r"(iso-?8859-?[0-9]+|latin-?1|(windows-|cp)125[0-9]|koi8-[ru]|shift[-_]jis|euc-(jp|kr)|gb18030"
    r"|gbk|gb2312|big5)",
    re.IGNORECASE,
)
"""Encodings of messages besides UTF-8. Some of Python's other codecs are very slow."""
TEXT_MAX: Final = 1000
"""Most characters of a subject or a name. A tag's message may have one more, which tells that it
was cut.
"""
OBJECT_MAX: Final = 64 * 1024
"""Bytes of an object that are parsed. A message may have many millions."""
WHOLE_TAG_MAX: Final = 1024 * 1024
"""Bytes of a tag that are parsed to read its whole message."""
PATIENCE: Final = 10.0
"""Seconds to read objects one by one, if git could not read all at once."""


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


NOBODY: Final = Stamp()


@dataclass(frozen=True, slots=True)
class Tip:
    """The commit of a branch or tag, with its texts. `commit` is "" for a tag of a tree or blob."""

    commit: str = ""
    subject: str = ""
    author: str = ""
    committed_at: str = ""
    """ISO 8601 with the committer's offset; "" for an invalid time."""
    message: str | None = None
    """The message of an annotated tag; None for branches and other tags."""
    tagger: Stamp = NOBODY


def tip_of(repo: GitRepo, sha: str) -> Tip:
    """The `Tip` of one branch or tag; an empty one if the object is missing."""
    return read_tips(repo, {sha: True})[sha]


def read_tips(repo: GitRepo, may_be_tag: Mapping[str, bool]) -> dict[str, Tip]:
    """The tips of these objects, by one git process. The value is True if an object may be a tag.

    A missing object, or one too large for git, has an empty `Tip`. If git cannot read all at once,
    they are read one by one, and those that take too long are left out.
    """
    check_shas(*may_be_tag)
    if not may_be_tag:
        return {}
    try:
        return _read_tips(repo, may_be_tag)
    except GitError:
        return _read_each(repo, may_be_tag)


def tag_message(repo: GitRepo, sha: str) -> tuple[str, bool] | None:
    """The message of an annotated tag, and whether it was cut; None for other objects."""
    check_shas(sha)
    parser = ObjectParser(WHOLE_TAG_MAX, WHOLE_TAG_MAX)
    [tag] = _read_objects(repo, [f"{sha}^{{tag}}"], parser)
    return None if tag is None else (tag.message or "", parser.cut)


def tip_of_commit(sha: str, content: bytes) -> Tip:
    """The `Tip` of a commit, from the bytes of its object."""
    return replace(_brief(sha, content, TEXT_MAX), message=None)


def _read_tips(repo: GitRepo, may_be_tag: Mapping[str, bool]) -> dict[str, Tip]:
    # By asking for a type, git does not write other objects, such as a large file.
    kinds = [(sha, kind) for sha in may_be_tag for kind in ("commit", "tag")[: 1 + may_be_tag[sha]]]
    names = [f"{sha}^{{{kind}}}" for sha, kind in kinds]
    objects = _read_objects(repo, names, ObjectParser(OBJECT_MAX, TEXT_MAX + 1))
    by_kind = dict(zip(kinds, objects, strict=True))
    tips: dict[str, Tip] = {}
    for sha in may_be_tag:
        commit, tag = by_kind[sha, "commit"] or Tip(), by_kind.get((sha, "tag"))
        message, tagger = (None, NOBODY) if tag is None else (tag.message, tag.tagger)
        tips[sha] = replace(commit, message=message, tagger=tagger)
    return tips


def _read_each(repo: GitRepo, objects: Mapping[str, bool]) -> dict[str, Tip]:
    tips: dict[str, Tip] = {}
    ends = monotonic() + PATIENCE
    for sha, maybe_tag in objects.items():
        try:
            tips |= _read_tips(repo, {sha: maybe_tag})
        except GitTooLarge:
            tips[sha] = Tip()
        except GitError:
            if not repo.exists():
                raise
        if monotonic() > ends:
            break
    return tips


def _brief(name: str, content: bytes, most: int) -> Tip:
    """Shorten the texts of a commit or tag. `most`: characters of its message."""
    stored = Stored.parse(content)
    author, tagger = stored.stamp(b"author"), stored.stamp(b"tagger")
    return Tip(
        commit=name,
        subject=stored.subject[:TEXT_MAX],
        author=author.name[:TEXT_MAX],
        committed_at=stored.stamp(b"committer").at,
        message=stored.message.strip("\n")[:most],
        tagger=Stamp(tagger.name[:TEXT_MAX], tagger.email[:TEXT_MAX], tagger.at),
    )


def _read_objects(repo: GitRepo, names: list[str], parser: "ObjectParser") -> list[Tip | None]:
    """The tips of these objects, in order; None for a missing object."""
    repo.git("cat-file", "--batch", stdin="\n".join([*names, ""]).encode(), take=parser.feed)
    if len(parser.tips) != len(names):
        raise GitError("git cat-file ended before it had written all objects")
    return parser.tips


@dataclass(slots=True)
class ObjectParser:
    """Parses the output of `cat-file --batch` for commits and tags as it arrives.

    It parses the first `most` bytes of each object, and stores `text` characters of its message.
    """

    most: int
    text: int
    tips: list[Tip | None] = field(default_factory=list)
    """One for each object, with the object's own name as `commit`; None for a missing object."""
    line: bytes = b""
    """The incomplete line before an object."""
    name: str = ""
    content: bytearray = field(default_factory=bytearray)
    unparsed: int = 0
    """Bytes of the object that are still to be collected for parsing."""
    cut: bool = False
    """Whether an object was longer than `most`."""
    left: int = 0
    """Bytes of the object that are still to come, including the line end behind it."""

    def feed(self, piece: bytes) -> None:
        """Parse the next piece of the output, of any length."""
        start = 0
        while start < len(piece):
            if self.left:
                start += self._go_on(piece[start : start + self.left])
                continue
            end = piece.find(b"\n", start)
            if end < 0:
                self.line += piece[start:]
                return
            self._begin(self.line + piece[start:end])
            self.line, start = b"", end + 1

    def _begin(self, line: bytes) -> None:
        name, *rest = line.split()
        if len(rest) != 2:  # "missing"
            self.tips.append(None)
            return
        size = int(rest[1])
        self.name, self.left, self.unparsed = name.decode(), size + 1, min(size, self.most)
        self.cut |= size > self.most

    def _go_on(self, part: bytes) -> int:
        self.content += part[: self.unparsed]
        self.unparsed -= min(self.unparsed, len(part))
        self.left -= len(part)
        if not self.left:
            self.tips.append(_brief(self.name, bytes(self.content), self.text))
            self.content.clear()
        return len(part)
