"""Merging without a work tree: it writes objects and moves no ref.

A strategy that would give another tree than a merge is refused, because reviewers saw the merge.
`Conflict` without paths means that git cannot merge: unrelated histories, trees too large for its
limits, or a rebase of more than `REBASE_LIMIT` commits.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from time import monotonic
from typing import Final, Self, TypeAlias

from apps.git.repo import EMPTY_TREE, GitRepo, Person, check_shas, is_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge, Started

REBASE_LIMIT: Final = 250
"""Most commits of a rebase. It runs git three times per commit, a few seconds for this many."""
REBASE_SECONDS: Final = 10.0
"""Seconds after which a rebase is given up: each of its commits may rename many files."""
RENAME_LIMIT: Final = 400
"""Most added and removed files of one side that git compares for renames. Of more files it finds
only renames that keep the content or the file name. The time grows with the square of this number.
"""
MOST_CONFLICT_PATHS: Final = 100

_WRITE_COMMIT: Final = ("hash-object", "-t", "commit", "-w", "--stdin")
_UNFIT_FOR_IDENT: Final = re.compile(r"[<>\x00-\x1f\x7f]")


class Strategy(StrEnum):
    """How the commits of a pull get into its target."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"
    FAST_FORWARD = "fast_forward"


@dataclass(frozen=True, slots=True)
class Merged:
    """The tree of a merge without conflicts."""

    tree: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A failed merge, with the first 100 paths in conflict, sorted. They are valid UTF-8."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """The commit to which the target may now be moved."""

    sha: str
    content: bytes = b""
    """The commit object's bytes, if it was just created."""


@dataclass(frozen=True, slots=True)
class FastForwardImpossible:
    """The target has commits that the head does not have."""


@dataclass(frozen=True, slots=True)
class NothingToMerge:
    """The target contains the head or, for squash and rebase, all of its changes."""


@dataclass(frozen=True, slots=True)
class StrategyDiffers:
    """This strategy would give another tree than a merge."""


Outcome: TypeAlias = Built | Conflict | FastForwardImpossible | NothingToMerge | StrategyDiffers


@dataclass(frozen=True, slots=True)
class Mergeability:
    """The outcome that `build` would have, for each strategy."""

    conflict_paths: tuple[str, ...]
    allowed_strategies: tuple[Strategy, ...]
    nothing_to_merge: bool
    rebase_too_slow: bool = False


def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """Try all strategies of `build`, and leave no objects in the repository."""
    base = repo.merge_base(target, head)
    if base == head:
        return Mergeability((), (), nothing_to_merge=True)
    with repo.dry() as dry:
        merged = _merge_trees(dry, target, head) if base else Conflict()
        if isinstance(merged, Conflict):
            return Mergeability(merged.paths, (), nothing_to_merge=False)
        rebased: Outcome | None = None
        with suppress(GitTimeout):
            rebased = _rebase(dry, target, head, merged.tree, b"nobody <nobody> 0 +0000")
        allowed = {
            Strategy.MERGE: True,
            Strategy.SQUASH: merged.tree != _commit(dry, target).tree,
            Strategy.REBASE: isinstance(rebased, Built),
            Strategy.FAST_FORWARD: base == target,
        }
    strategies = tuple(strategy for strategy in Strategy if allowed[strategy])
    return Mergeability((), strategies, nothing_to_merge=False, rebase_too_slow=rebased is None)


def merged_tree(repo: GitRepo, target: str, head: str) -> str | None:
    """The tree of merging `head` into `target`; None if they conflict. Leaves no objects."""
    check_shas(target, head)
    with repo.dry() as dry:
        merged = _merge_histories(dry, target, head)
    return merged.tree if isinstance(merged, Merged) else None


def build(
    repo: GitRepo,
    strategy: Strategy,
    target_sha: str,
    head_sha: str,
    *,
    author: Person,
    committer: Person,
    message: str,
    when: datetime,
    ahead: int | None = None,
) -> Outcome:
    """Write the commits that merge `head_sha` into `target_sha`; the caller moves the ref.

    Merge and squash use `author` and `message`; merge, squash and rebase use `committer` and `when`
    (with an offset); fast_forward uses none of them. `ahead` is the number of commits that only the
    head has; a caller that knows it saves a git process.
    """
    if strategy is Strategy.FAST_FORWARD or not ahead:
        base = repo.merge_base(target_sha, head_sha)
        if base == head_sha:
            return NothingToMerge()
        if strategy is Strategy.FAST_FORWARD:
            return Built(head_sha) if base == target_sha else FastForwardImpossible()
    people = _ident(author, when), _ident(committer, when)
    if strategy is Strategy.REBASE:
        merged = _merge_histories(repo, target_sha, head_sha)
        return (
            merged
            if isinstance(merged, Conflict)
            else _rebase(repo, target_sha, head_sha, merged.tree, people[1])
        )
    with repo.start(*_WRITE_COMMIT, stdin=None) as writer:  # starts while the trees are merged
        merged = _merge_histories(repo, target_sha, head_sha)
        if isinstance(merged, Conflict):
            return merged
        commit = _Commit(merged.tree, (target_sha, head_sha), *people, b"", _text(message))
        if strategy is Strategy.SQUASH:
            return _squash(repo, commit, author, writer)
        return commit.built(writer)


@dataclass(frozen=True, slots=True)
class _Commit:
    """The fields of a commit object, without its signature: a rewritten commit makes it invalid."""

    tree: str
    parents: tuple[str, ...]
    author: bytes
    committer: bytes
    encoding: bytes
    message: bytes

    @classmethod
    def parse(cls, stored: bytes) -> Self:
        header, _, message = stored.partition(b"\n\n")
        fields: dict[bytes, list[bytes]] = {b"author": [], b"committer": [], b"encoding": []}
        for line in header.split(b"\n"):
            key, _, value = line.partition(b" ")
            fields.setdefault(key, []).append(value)
        author, committer, encoding = (
            b"".join(fields[key][:1]) for key in (b"author", b"committer", b"encoding")
        )
        parents = tuple(sha.decode() for sha in fields.get(b"parent", ()))
        return cls(fields[b"tree"][0].decode(), parents, author, committer, encoding, message)

    def write(self, repo: GitRepo) -> Built:
        """Store the commit with `hash-object`: unlike `commit-tree`, it changes no byte."""
        with repo.start(*_WRITE_COMMIT, stdin=None) as writer:
            return self.built(writer)

    def built(self, writer: Started) -> Built:
        """Store the commit with a started `hash-object`; return its name with its bytes."""
        stored = self.content()
        return Built(writer.feed(stored).result().word, stored)

    def content(self) -> bytes:
        """The bytes of the commit object."""
        lines = [f"tree {self.tree}".encode(), *(f"parent {sha}".encode() for sha in self.parents)]
        lines += [b"author " + self.author, b"committer " + self.committer]
        if self.encoding:
            lines.append(b"encoding " + self.encoding)
        return b"\n".join(lines) + b"\n\n" + self.message


def new_commit(
    tree: str,
    parent: str,
    *,
    person: Person,
    message: str,
    others: Iterable[Person],
    when: datetime,
) -> bytes:
    """The bytes of a commit by `person`, with a `Co-authored-by` for each of `others`."""
    ident = _ident(person, when)
    content = _text(message) + _trailers(others)
    return _Commit(tree, (parent,), ident, ident, b"", content).content()


def _merge_histories(repo: GitRepo, target: str, head: str) -> Merged | Conflict:
    """The tree that merges the two; a `Conflict` if their histories are unrelated."""
    try:
        return _merge_trees(repo, target, head)
    except GitTimeout:
        raise
    except GitError:  # among others, for unrelated histories
        if repo.merge_base(target, head) is not None:
            raise
        return Conflict()


def _merge_trees(repo: GitRepo, ours: str, theirs: str, *options: str) -> Merged | Conflict:
    args = ("--stdin", "--name-only", "--no-messages", *options)
    # git 2.43 to 2.45 read the attributes of HEAD here: a push to the default branch could change
    # how other branches are merged (`merge=union`).
    config = {"merge.renameLimit": str(RENAME_LIMIT), "attr.tree": EMPTY_TREE}
    try:
        result = repo.git("merge-tree", *args, stdin=f"{ours} {theirs}\n".encode(), config=config)
    except GitTooLarge:
        return Conflict()
    fields = [field.decode("utf-8", "replace") for field in result.out.split(b"\0")]
    clean, tree, *names = fields if len(fields) > 1 else ("", "")
    # git 2.39 treats a missing tree as an empty one.
    if not is_sha(tree) or result.err.startswith(b"error:"):
        raise GitError(f"git merge-tree lacks objects: {result.err!r}")
    if clean == "1":
        return Merged(tree)
    paths = {original_path(name, ours, theirs) for name in names if name}
    return Conflict(tuple(sorted(paths)[:MOST_CONFLICT_PATHS]))


def original_path(name: str, ours: str, theirs: str) -> str:
    """The path of a file in conflict, which git may have moved aside because it blocks a folder.

    Its name is then `name~<commit>` or `name~<commit>_0`; `name~Temporary merge branch 1` if it was
    moved while git merged several merge bases.
    """
    return re.sub(rf"~({ours}|{theirs}|Temporary merge branch [12])(_[0-9]+)?(?=/|\Z)", "", name)


def _squash(repo: GitRepo, merge: _Commit, author: Person, writer: Started) -> Outcome:
    """A commit with the merge's tree, one parent, and a `Co-authored-by` for each other author."""
    target, head = merge.parents
    if merge.tree == _commit(repo, target).tree:
        return NothingToMerge()
    others = [
        person
        for person in repo.commit_authors(target, head)
        if person.email.lower() != author.email.lower()
    ]
    message = merge.message + _trailers(others)
    return replace(merge, parents=(target,), message=message).built(writer)


def _trailers(people: Iterable[Person]) -> bytes:
    """A paragraph with a `Co-authored-by` for each of these people; empty without any."""
    lines = [f"Co-authored-by: {_name(person)} <{_fit(person.email)}>" for person in people]
    return "\n".join(["", *lines, ""]).encode() if lines else b""


def _rebase(repo: GitRepo, target: str, head: str, result: str, committer: bytes) -> Outcome:
    """Replay the commits of `head` on `target` without merges. The last tree must be `result`."""
    order = ("--reverse", "--topo-order", "--no-merges", f"--max-count={REBASE_LIMIT + 1}")
    shas = repo.git("rev-list", *order, f"{target}..{head}").word.split()
    if len(shas) > REBASE_LIMIT:
        return Conflict()
    try:
        commits = _commits(repo, shas)
        parents = _commits(repo, {sha for commit in commits.values() for sha in commit.parents})
    except GitTooLarge:
        return Conflict()
    tip, tree, ends = Built(target), _commit(repo, target).tree, monotonic() + REBASE_SECONDS
    for sha, commit in commits.items():
        if monotonic() > ends:
            raise GitTimeout(f"replaying {len(shas)} commits takes more than {REBASE_SECONDS} s")
        before = parents[commit.parents[0]].tree if commit.parents else EMPTY_TREE
        merged = _pick(repo, sha, commit, before, tree)
        if isinstance(merged, Conflict):
            return merged
        if merged.tree == tree and commit.tree != before:
            continue  # the target has this change already
        tree = merged.tree
        # The encoding of a commit also applies to its committer.
        commit_committer = (
            committer.decode().encode("ascii", "replace") if commit.encoding else committer
        )
        tip = replace(commit, tree=tree, parents=(tip.sha,), committer=commit_committer).write(repo)
    if tree != result:
        return StrategyDiffers()
    return NothingToMerge() if tip.sha == target else tip


def _pick(repo: GitRepo, sha: str, commit: _Commit, before: str, current: str) -> Merged | Conflict:
    """Apply the change of one commit to the tree `current`."""
    if before == current:
        return Merged(commit.tree)
    # merge-tree chooses the merge base itself. With the parents of the picked commit, this commit
    # makes the picked commit's parent the base.
    synthetic = replace(commit, tree=current, message=b"")
    return _merge_trees(repo, synthetic.write(repo).sha, sha, "--allow-unrelated-histories")


def _commit(repo: GitRepo, sha: str) -> _Commit:
    return _commits(repo, [sha])[sha]


def _commits(repo: GitRepo, shas: Iterable[str]) -> dict[str, _Commit]:
    """Read many commits with one git process, in the given order."""
    names = list(shas)
    out = repo.git("cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in names).encode()).out
    commits, start = {}, 0
    for sha in names:
        end = out.index(b"\n", start)
        _, kind, *size = out[start:end].split()
        if kind != b"commit":
            raise GitError(f"{sha} is not a commit but {kind!r}")
        start = end + 1 + int(size[0]) + 1
        commits[sha] = _Commit.parse(out[end + 1 : start - 1])
    return commits


def _ident(person: Person, when: datetime) -> bytes:
    if when.utcoffset() is None:
        raise ValueError("the time of a commit needs an offset")
    at = f"{int(when.timestamp())} {when.strftime('%z')[:5]}"
    return f"{_name(person)} <{_fit(person.email)}> {at}".encode()


def _name(person: Person) -> str:
    """A name for the commit: git refuses an empty one."""
    return _fit(person.name) or _fit(person.email) or "unknown"


def _fit(text: str) -> str:
    return _UNFIT_FOR_IDENT.sub("", text).encode("utf-8", "replace").decode().strip()


def _text(message: str) -> bytes:
    """The message in git's form: no NUL, LF as line ends, one of them at the end."""
    plain = message.replace("\r\n", "\n").replace("\0", "").strip()
    return f"{plain}\n".encode("utf-8", "replace")
