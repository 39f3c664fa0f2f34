"""Merging without a work tree: what is written are objects; no ref moves.

All strategies end in the same tree, or are refused: what was reviewed is what gets into the target.
`Conflict` without paths means that git cannot do that: unrelated histories, trees too large for
their limits, a rebase of more than `REBASE_LIMIT` commits.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from time import monotonic
from typing import Final, Self, TypeAlias

from apps.git.repo import EMPTY_TREE, GitRepo, Person, is_sha
from apps.git.run import GitError, GitTimeout, GitTooLarge

REBASE_LIMIT: Final = 250
"""A rebase runs git three times per commit; this many take a few seconds."""
REBASE_SECONDS: Final = 10.0
"""After which one is given up: each of its commits may rename many files."""
RENAME_LIMIT: Final = 400
"""Of so many files that one side adds and removes git looks which are alike; where there are more,
only those count as renamed that are the same or keep their last name. The time grows with the
square."""
MOST_CONFLICT_PATHS: Final = 100

_UNFIT_FOR_IDENT: Final = re.compile(r"[<>\x00-\x1f\x7f]")


class Strategy(StrEnum):
    """How a pull is merged: by which commits, and of what."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"
    FAST_FORWARD = "fast_forward"


@dataclass(frozen=True, slots=True)
class Merged:
    """The two merge without a conflict, and this is the tree."""

    tree: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The two do not merge; the first 100 paths in order, as text that can always be encoded."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """The commit to which the target may now be moved."""

    sha: str
    content: bytes = b""
    """What that is made of, where it was written now."""


@dataclass(frozen=True, slots=True)
class FastForwardImpossible:
    """The target has commits that the head has not."""


@dataclass(frozen=True, slots=True)
class NothingToMerge:
    """The target contains the head, or, for squash and rebase, all that it changes."""


@dataclass(frozen=True, slots=True)
class StrategyDiffers:
    """This strategy would give another tree than a merge."""


Outcome: TypeAlias = Built | Conflict | FastForwardImpossible | NothingToMerge | StrategyDiffers


@dataclass(frozen=True, slots=True)
class Mergeability:
    """What `build` would answer now, for each strategy."""

    conflict_paths: tuple[str, ...]
    allowed_strategies: tuple[Strategy, ...]
    nothing_to_merge: bool
    rebase_too_slow: bool = False


def mergeability(repo: GitRepo, target: str, head: str) -> Mergeability:
    """Which strategies `build` can carry out now. Leaves nothing behind in the repository."""
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
    """The tree that merging `head` into `target` gives; None where they conflict. Leaves nothing
    behind.
    """
    if not is_sha(target) or not is_sha(head):
        raise ValueError(f"no full object name: {target!r}, {head!r}")
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

    `author` and `message` count for merge and squash, `committer` and `when` (with an offset)
    also for rebase, none for fast_forward. `ahead`: how many commits the head has that the target
    has not, where that is known; it saves asking git.
    """
    if strategy is Strategy.FAST_FORWARD or not ahead:
        base = repo.merge_base(target_sha, head_sha)
        if base == head_sha:
            return NothingToMerge()
        if strategy is Strategy.FAST_FORWARD:
            return Built(head_sha) if base == target_sha else FastForwardImpossible()
    merged = _merge_histories(repo, target_sha, head_sha)
    if isinstance(merged, Conflict):
        return merged
    people = _ident(author, when), _ident(committer, when)
    if strategy is Strategy.REBASE:
        return _rebase(repo, target_sha, head_sha, merged.tree, people[1])
    commit = _Commit(merged.tree, (target_sha, head_sha), *people, b"", _text(message))
    if strategy is Strategy.SQUASH:
        return _squash(repo, commit, author)
    return commit.built(repo)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit as git stores it, without signatures: those end with what they signed."""

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

    def write(self, repo: GitRepo) -> str:
        """Store it with `hash-object`, which keeps every byte; `commit-tree` would not."""
        return self.built(repo).sha

    def built(self, repo: GitRepo) -> Built:
        """The same, with what has been stored."""
        lines = [f"tree {self.tree}".encode(), *(f"parent {sha}".encode() for sha in self.parents)]
        lines += [b"author " + self.author, b"committer " + self.committer]
        if self.encoding:
            lines.append(b"encoding " + self.encoding)
        stored = b"\n".join(lines) + b"\n\n" + self.message
        sha = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=stored).word
        return Built(sha, stored)


def _merge_histories(repo: GitRepo, target: str, head: str) -> Merged | Conflict:
    """The tree that merges the two, unless their histories have nothing in common."""
    try:
        return _merge_trees(repo, target, head)
    except GitTimeout:
        raise
    except GitError:  # git refuses unrelated histories, among other things
        if repo.merge_base(target, head) is not None:
            raise
        return Conflict()


def _merge_trees(repo: GitRepo, ours: str, theirs: str, *options: str) -> Merged | Conflict:
    args = ("--stdin", "--name-only", "--no-messages", *options)
    # git 2.43 to 2.45 take the attributes of HEAD here, by which a push to one branch could decide
    # how others are merged (`merge=union`).
    config = {"merge.renameLimit": str(RENAME_LIMIT), "attr.tree": EMPTY_TREE}
    try:
        result = repo.git("merge-tree", *args, stdin=f"{ours} {theirs}\n".encode(), config=config)
    except GitTooLarge:
        return Conflict()
    fields = [field.decode("utf-8", "replace") for field in result.out.split(b"\0")]
    clean, tree, *names = fields if len(fields) > 1 else ("", "")
    # git 2.39 takes a missing tree as empty.
    if not is_sha(tree) or result.err.startswith(b"error:"):
        raise GitError(f"git merge-tree lacks objects: {result.err!r}")
    if clean == "1":
        return Merged(tree)
    # What is in the way of another it calls `name~<commit>` or `name~<commit>_0`.
    moved_aside = re.compile(rf"~({ours}|{theirs})(_[0-9]+)?(?=/|\Z)")
    known = {moved_aside.sub("", name) for name in names if name}
    return Conflict(tuple(sorted(known)[:MOST_CONFLICT_PATHS]))


def _squash(repo: GitRepo, merge: _Commit, author: Person) -> Outcome:
    """The same tree as the merge, but one parent, and a line for everybody else who wrote it."""
    target, head = merge.parents
    if merge.tree == _commit(repo, target).tree:
        return NothingToMerge()
    others = [
        f"Co-authored-by: {_name(person)} <{_fit(person.email)}>"
        for person in repo.commit_authors(target, head)
        if person.email.lower() != author.email.lower()
    ]
    trailers = "\n".join(["", *others, ""]).encode() if others else b""
    return replace(merge, parents=(target,), message=merge.message + trailers).built(repo)


def _rebase(repo: GitRepo, target: str, head: str, result: str, committer: bytes) -> Outcome:
    """Replay the commits of `head` on `target`, leaving out merges, if that ends in `result`."""
    order = ("--reverse", "--topo-order", "--no-merges", f"--max-count={REBASE_LIMIT + 1}")
    shas = repo.git("rev-list", *order, f"{target}..{head}").word.split()
    if len(shas) > REBASE_LIMIT:
        return Conflict()
    try:
        picked = _commits(repo, shas)
        parents = _commits(repo, {sha for commit in picked.values() for sha in commit.parents})
    except GitTooLarge:
        return Conflict()
    tip, tree, ends = Built(target), _commit(repo, target).tree, monotonic() + REBASE_SECONDS
    for sha, commit in picked.items():
        if monotonic() > ends:
            raise GitTimeout(f"replaying {len(shas)} commits takes more than {REBASE_SECONDS} s")
        before = parents[commit.parents[0]].tree if commit.parents else EMPTY_TREE
        merged = _pick(repo, sha, commit, before, tree)
        if isinstance(merged, Conflict):
            return merged
        if merged.tree == tree and commit.tree != before:
            continue  # the target has this change already
        tree = merged.tree
        # A commit in another encoding says so of its committer as well.
        who = committer.decode().encode("ascii", "replace") if commit.encoding else committer
        tip = replace(commit, tree=tree, parents=(tip.sha,), committer=who).built(repo)
    if tree != result:
        return StrategyDiffers()
    return NothingToMerge() if tip.sha == target else tip


def _pick(repo: GitRepo, sha: str, commit: _Commit, before: str, current: str) -> Merged | Conflict:
    """The tree that the change of one commit makes of the tree `current`."""
    if before == current:
        return Merged(commit.tree)
    # merge-tree finds its base by itself. This commit makes the parent of the picked one the base.
    synthetic = replace(commit, tree=current, message=b"")
    return _merge_trees(repo, synthetic.write(repo), sha, "--allow-unrelated-histories")


def _commit(repo: GitRepo, sha: str) -> _Commit:
    return _commits(repo, [sha])[sha]


def _commits(repo: GitRepo, shas: Iterable[str]) -> dict[str, _Commit]:
    """Read many commits with one git, in the order asked for."""
    wanted = list(shas)
    out = repo.git("cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in wanted).encode()).out
    found, start = {}, 0
    for sha in wanted:
        end = out.index(b"\n", start)
        _, kind, *size = out[start:end].split()
        if kind != b"commit":
            raise GitError(f"{sha} is no commit but {kind!r}")
        start = end + 1 + int(size[0]) + 1
        found[sha] = _Commit.parse(out[end + 1 : start - 1])
    return found


def _ident(person: Person, when: datetime) -> bytes:
    if when.utcoffset() is None:
        raise ValueError("a commit needs a time with an offset")
    at = f"{int(when.timestamp())} {when.strftime('%z')[:5]}"
    return f"{_name(person)} <{_fit(person.email)}> {at}".encode()


def _name(person: Person) -> str:
    """git refuses a commit by nobody."""
    return _fit(person.name) or _fit(person.email) or "unknown"


def _fit(text: str) -> str:
    return _UNFIT_FOR_IDENT.sub("", text).encode("utf-8", "replace").decode().strip()


def _text(message: str) -> bytes:
    """A message as git keeps it: no NUL, one line end at the end."""
    plain = message.replace("\r\n", "\n").replace("\0", "").strip()
    return f"{plain}\n".encode("utf-8", "replace")
