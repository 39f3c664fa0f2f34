"""What branches and tags lead to: read when they move, so that nobody asks git afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from apps.git.objects import Stamp, Stored
from apps.git.repo import GitRepo, is_sha
from apps.git.run import GitError, GitTooLarge

TEXT_MAX: Final = 1000
"""Characters that are kept of a subject and of each name, and of a tag's message: one more, which
tells that there are more.
"""
KEPT: Final = 64 * 1024
"""Bytes of an object that are looked at: a message may have many millions."""
WHOLE: Final = 1024 * 1024
"""Bytes of a tag that are looked at where its whole message is asked for."""
PATIENCE: Final = 10.0
"""Seconds to ask about one after the other, where git cannot tell of all at once."""


NOBODY: Final = Stamp()


@dataclass(frozen=True, slots=True)
class Tip:
    """What one branch or tag leads to. `commit` is "" for a tag of a file or a folder."""

    commit: str = ""
    subject: str = ""
    author: str = ""
    committed_at: str = ""
    """ISO 8601 with the committer's offset; "" where git has no such time."""
    message: str | None = None
    """Of an annotated tag; None for all others."""
    tagger: Stamp = NOBODY


def tip_of(repo: GitRepo, sha: str) -> Tip:
    """What one tag, or one branch, leads to. An empty `Tip` where git lacks the object."""
    return read_tips(repo, {sha: True})[sha]


def read_tips(repo: GitRepo, wanted: Mapping[str, bool]) -> dict[str, Tip]:
    """What these objects lead to; one git for all of them. True for those that may be tags.

    What git lacks, or what is too large for it, leads to nothing. Where git cannot read all at
    once, each is read by itself; those that take too long then are left out.
    """
    if not all(map(is_sha, wanted)):
        raise ValueError("full object names are needed")
    if not wanted:
        return {}
    try:
        return _read_tips(repo, wanted)
    except GitError:
        return _read_each(repo, wanted)


def tag_message(repo: GitRepo, sha: str) -> tuple[str, bool] | None:
    """The message of an annotated tag, and whether it was cut; None for what is none."""
    if not is_sha(sha):
        raise ValueError("a full object name is needed")
    answers = Answers(WHOLE, WHOLE)
    [tag] = _read_objects(repo, [f"{sha}^{{tag}}"], answers)
    return None if tag is None else (tag.message or "", answers.cut)


def tip_of_commit(sha: str, content: bytes) -> Tip:
    """The same for a commit of which one has the bytes."""
    return replace(_brief(sha, content, TEXT_MAX), message=None)


def _read_tips(repo: GitRepo, wanted: Mapping[str, bool]) -> dict[str, Tip]:
    # What is no commit and no tag, such as a large file, is not written out so.
    kinds = [(sha, kind) for sha in wanted for kind in ("commit", "tag")[: 1 + wanted[sha]]]
    names = [f"{sha}^{{{kind}}}" for sha, kind in kinds]
    found = _read_objects(repo, names, Answers(KEPT, TEXT_MAX + 1))
    by_kind = dict(zip(kinds, found, strict=True))
    tips: dict[str, Tip] = {}
    for sha in wanted:
        commit, tag = by_kind[sha, "commit"] or Tip(), by_kind.get((sha, "tag"))
        message, tagger = (None, NOBODY) if tag is None else (tag.message, tag.tagger)
        tips[sha] = replace(commit, message=message, tagger=tagger)
    return tips


def _read_each(repo: GitRepo, wanted: Mapping[str, bool]) -> dict[str, Tip]:
    tips: dict[str, Tip] = {}
    ends = monotonic() + PATIENCE
    for sha, maybe_tag in wanted.items():
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
    """What is kept of a commit or a tag; `most`: characters of its message."""
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


def _read_objects(repo: GitRepo, names: list[str], answers: "Answers") -> list[Tip | None]:
    """What is kept of each, in their order; None for what is not there."""
    repo.git("cat-file", "--batch", stdin="\n".join([*names, ""]).encode(), take=answers.feed)
    if len(answers.found) != len(names):
        raise GitError("git cat-file has told of some objects only")
    return answers.found


@dataclass(slots=True)
class Answers:
    """What `cat-file --batch` writes about commits and tags, taken apart as it comes.

    Of each object the first `most` bytes are looked at, and `text` characters of its message kept.
    """

    most: int
    text: int
    found: list[Tip | None] = field(default_factory=list)
    """What is kept of each, with the object's own name; None for what is not there."""
    line: bytes = b""
    """The line before an object, as far as it has come."""
    name: str = ""
    content: bytearray = field(default_factory=bytearray)
    wanted: int = 0
    """Bytes that are still to be looked at."""
    cut: bool = False
    """Whether an object had more than was looked at."""
    left: int = 0
    """Bytes that are still to come of the object, with the line end behind it."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece, wherever it begins and ends."""
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
            self.found.append(None)
            return
        size = int(rest[1])
        self.name, self.left, self.wanted = name.decode(), size + 1, min(size, self.most)
        self.cut |= size > self.most

    def _go_on(self, part: bytes) -> int:
        self.content += part[: self.wanted]
        self.wanted -= min(self.wanted, len(part))
        self.left -= len(part)
        if not self.left:
            self.found.append(_brief(self.name, bytes(self.content), self.text))
            self.content.clear()
        return len(part)
