"""The lines of a pull that a comment is about: checking and reading them, and their anchor."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from django.utils import timezone

from apps.browse.names import no_entry, path_in_tree, quick
from apps.browse.read_slots import heavy_slots
from apps.browse.trees import INLINE_MAX, LOOKED_AT
from apps.core.errors import Invalid, Unavailable
from apps.core.json import quoted
from apps.git.cache import GitFacts
from apps.git.lines import split_lines
from apps.git.run import GitError
from apps.git.tree import file_at
from apps.pulls.following import PUSH_SECONDS, Search, heads_of, outcome_at
from apps.pulls.models import Pull
from apps.repos.http.transfer_slots import PERSON
from apps.threads.anchors import ANCHOR_PATH_MAX, Anchor, Side

LINES_MAX = 200
"""Most lines that a comment is about."""
SNIPPET_LINES = 20
SNIPPET_BEFORE = 3
"""Lines of a snippet: the last ones of the comment, and those before them."""
SNIPPET_WIDTH = 500
"""Most characters of one line of a snippet."""


@dataclass(frozen=True)
class LinePlace:
    """Lines that a comment is about. On the old side, the commit is the merge base of a version of
    the pull; on the new side, the head of one. `start_line` is None for a single line.
    """

    commit_sha: str
    path: bytes
    line: int
    start_line: int | None = None
    side: str = Side.NEW

    @property
    def first(self) -> int:
        return self.line if self.start_line is None else self.start_line


@dataclass(frozen=True)
class CheckedPlace:
    """Lines that exist, with their file and the text that is shown with the comment."""

    place: LinePlace
    blob_sha: str
    snippet: list[str]


def check_place(pull: Pull, place: LinePlace) -> CheckedPlace:
    """Read the lines that a comment is about. Holds a slot while git reads the file.

    422 `commit_not_found` for a commit that is not of a version of the pull, 404 for a path that it
    does not have, 422 `not_a_file` for anything but a text of at most 1 MiB, `line_not_found`,
    `invalid_path`.
    """
    column = "merge_base_sha" if place.side == Side.OLD else "head_sha"
    if not pull.versions.filter(**{column: place.commit_sha}).exists():
        raise commit_not_found(place)
    if not place.path or len(place.path) > ANCHOR_PATH_MAX:
        raise Invalid("invalid_path", f"A path has 1 to {ANCHOR_PATH_MAX} bytes.")
    path_in_tree(place.path.decode("utf-8", "surrogateescape"))
    with quick():
        git, sizes = pull.repo.git, {"most": INLINE_MAX, "start": LOOKED_AT}
        file = file_at(git, place.commit_sha, place.path, **sizes)
    if file.commit is None:  # removed by `forget_commit`
        raise commit_not_found(place)
    if file.entry is None:
        raise no_entry(place.path, place.commit_sha)
    is_small = file.entry.size is not None and file.entry.size <= INLINE_MAX
    if file.entry.kind != "file" or not is_small or b"\0" in file.content[:LOOKED_AT]:
        text = "Comments are on lines of text files of at most 1 MiB."
        raise Invalid("not_a_file", text)
    lines = split_lines(file.content)
    check_lines(place, len(lines))
    return CheckedPlace(place, file.entry.sha, snippet_of(lines, place))


def commit_not_found(place: LinePlace) -> Invalid:
    """422 for a commit that is not of a version of the pull."""
    name = "merge base" if place.side == Side.OLD else "head"
    text = f"commit_sha: {quoted(place.commit_sha)} is not the {name} of a version of this pull."
    return Invalid("commit_not_found", text)


def check_lines(place: LinePlace, count: int) -> None:
    """422 `line_not_found` unless these are at most `LINES_MAX` lines of a file with `count`."""
    if not 1 <= place.first <= place.line <= count:
        is_one = place.first == place.line
        lines = f"line {place.line}" if is_one else f"lines {place.first} to {place.line}"
        text = f"The file has no {lines}: it has {count} line{'' if count == 1 else 's'}."
        raise Invalid("line_not_found", text)
    if place.line - place.first >= LINES_MAX:
        raise Invalid("line_not_found", f"A comment is on at most {LINES_MAX} lines.")


def snippet_of(lines: list[bytes], place: LinePlace) -> list[str]:
    """The last lines of a comment and those before them, as texts that a database can store."""
    first = max(place.first, place.line - SNIPPET_LINES + 1)
    chosen = lines[max(0, first - 1 - SNIPPET_BEFORE) : place.line]
    texts = (line.decode("utf-8", "replace").replace("\0", "\ufffd") for line in chosen)
    return [text[:SNIPPET_WIDTH] for text in texts]


def new_anchor(pull: Pull, checked: CheckedPlace, person_id: int) -> Anchor:
    """The anchor of a comment that this person writes, without its reply; see `new_anchors`."""
    [anchor] = new_anchors(pull, [checked], person_id)
    return anchor


def new_anchors(pull: Pull, places: Sequence[CheckedPlace], person_id: int) -> list[Anchor]:
    """The anchors of comments that this person writes, without their replies. If a place is of an
    earlier version, git looks for its lines now; if it has no time, the worker does.
    """
    anchors = [anchor_of(checked) for checked in places]
    heads = heads_of(pull) if anchors else None
    if heads is None:
        return anchors
    git, facts = pull.repo.git, GitFacts()
    search = Search(git, facts, files=len(anchors))
    search.add(anchors, heads)
    if search.groups:
        with suppress(GitError, Unavailable), heavy_slots.slot(f"{PERSON}{person_id}"):
            search.run(PUSH_SECONDS)
    for anchor in anchors:
        target = heads.of(anchor.side)
        if target is None or target == anchor.commit_sha:
            continue
        outcome = outcome_at(git, anchor, target, facts)
        if outcome is None:
            anchor.due_at = timezone.now()
        else:
            anchor.set_outcome(target, outcome)
    return anchors


def anchor_of(checked: CheckedPlace) -> Anchor:
    """The anchor of a comment, as if its commit were the current head."""
    place = checked.place
    anchor = Anchor(
        commit_sha=place.commit_sha,
        path=place.path,
        side=place.side,
        start_line=place.first,
        line=place.line,
        blob_sha=checked.blob_sha,
        snippet=checked.snippet,
    )
    anchor.set_outcome(place.commit_sha, anchor.lines)
    return anchor
