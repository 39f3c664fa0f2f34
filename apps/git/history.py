"""Questions about several commits, answered by few git processes."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

from apps.git.log import Commit, command, parse_log
from apps.git.repo import DISTANCE, Distance, GitRepo, check_shas
from apps.git.run import GitError, Started
from apps.git.tree import commits_of

_SHORT: Final = re.compile(r"[0-9a-f]{4,40}\Z")


def find_commits(repo: GitRepo, names: Collection[str]) -> dict[str, str]:
    """Name -> full name of the commits among `names` that exist, by one or two git processes.

    A name has 4 to 40 hexadecimal digits in lower case. Ambiguous names and names of branches are
    left out. A short name finds only commits that a branch, a tag or a pull reaches: git lets
    clients fetch any commit by its full name, and short names must not help to guess one.
    """
    valid_names = [name for name in names if _SHORT.match(name)]
    if not valid_names:
        return {}
    form, stdin = "--batch-check=%(objectname) %(objecttype)", "\n".join([*valid_names, ""])
    config = {"core.disambiguate": "commit"}
    out = repo.git("cat-file", form, stdin=stdin.encode(), config=config).out.decode()
    answers = [line.split(" ") for line in out.splitlines()]
    commits = {
        name: sha
        for name, (sha, kind) in zip(valid_names, answers, strict=True)
        if kind == "commit" and sha.startswith(name)
    }
    hidden = _hidden(repo, {sha for name, sha in commits.items() if name != sha})
    return {name: sha for name, sha in commits.items() if name == sha or sha not in hidden}


def _hidden(repo: GitRepo, shas: Collection[str]) -> set[str]:
    """The commits among `shas` that no branch, tag or pull reaches."""
    if not shas:
        return set()
    visible = ("--branches", "--tags", "--glob=refs/pull/*")
    stdin = "\n".join([*shas, ""]).encode()
    out = repo.git("rev-list", "--stdin", "--not", *visible, stdin=stdin).out.decode()
    return {*out.splitlines()}.intersection(shas)


def heads_sharing(repo: GitRepo, old: str, new: str, heads: frozenset[str]) -> frozenset[str]:
    """The heads that contain a commit which `new` has and `old` has not, by one git process.

    Heads that do not exist are left out. `GitTooLarge` for more than some 100,000 commits.
    """
    check_shas(old, new, *heads)
    lines = "\n".join([*heads, new, f"^{old}", ""]).encode()
    options = ("--topo-order", "--parents", "--ignore-missing", "--stdin")
    out = repo.git("rev-list", *options, stdin=lines).out.decode()
    history = [line.split(" ") for line in out.splitlines()]
    gained, sharing = {new}, set[str]()
    for commit, *parents in history:  # children before parents
        if commit in gained:
            gained.update(parents)
    for commit, *parents in reversed(history):
        if commit in gained or not sharing.isdisjoint(parents):
            sharing.add(commit)
    return heads & sharing


def commits_gained(
    repo: GitRepo, heads: Collection[str], before: Collection[str], *, most: int
) -> list[str]:
    """At most `most` commits that `heads` reach and `before` do not, newest first; one git process.

    Objects that do not exist or are no commits are left out.
    """
    check_shas(*heads, *before)
    lines = "\n".join([*heads, *(f"^{sha}" for sha in before), ""]).encode()
    options = (f"--max-count={most}", "--ignore-missing", "--stdin")
    return repo.git("rev-list", *options, stdin=lines).out.decode().splitlines()


def distances(repo: GitRepo, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Distance]:
    """`GitRepo.distance` of each (old, new), by two git processes for all pairs.

    Pairs that git cannot compare are left out. If git cannot compare all at once, because an object
    is missing or the history is too long for one answer, each pair is compared alone.
    """
    pairs = list(dict.fromkeys(pairs))
    check_shas(*chain.from_iterable(pairs))
    if len(pairs) > 1:
        with suppress(GitError):
            return _distances_at_once(repo, pairs)
    by_pair = {}
    for old, new in pairs:
        with suppress(GitError):
            by_pair[old, new] = repo.distance(old, new)
    return by_pair


def _distances_at_once(
    repo: GitRepo, pairs: list[tuple[str, str]]
) -> dict[tuple[str, str], Distance]:
    """Walk from all tips to their common ancestor, and mark each commit with the tips that reach
    it.

    A mark is an integer with one bit for each pair.
    """
    tips = {sha for pair in pairs for sha in pair}
    base = repo.git("merge-base", "--octopus", *tips, ok=(0, 1)).word
    lines = [*tips, *([f"^{base}"] if base else []), ""]
    options = ("--topo-order", "--parents", "--stdin")
    history = repo.git("rev-list", *options, stdin="\n".join(lines).encode()).out.decode()
    of_old, of_new = defaultdict[str, int](int), defaultdict[str, int](int)
    for index, (old, new) in enumerate(pairs):
        of_old[old] |= 1 << index
        of_new[new] |= 1 << index
    lost, gained = Counter[int](), Counter[int]()
    for line in history.splitlines():  # children before parents
        commit, *parents = line.split(" ")
        old_bits, new_bits = of_old[commit], of_new[commit]
        for parent in parents:
            of_old[parent] |= old_bits
            of_new[parent] |= new_bits
        lost[old_bits & ~new_bits] += 1
        gained[new_bits & ~old_bits] += 1
    losses, gains = _counts(lost, len(pairs)), _counts(gained, len(pairs))
    return {pair: Distance(losses[index], gains[index]) for index, pair in enumerate(pairs)}


def _counts(marks: Counter[int], size: int) -> list[int]:
    """How often each of `size` bits is set in the counted marks."""
    counts = [0] * size
    for bits, times in marks.items():
        rest = bits
        while rest:
            lowest = rest & -rest
            counts[lowest.bit_length() - 1] += times
            rest ^= lowest
    return counts


@dataclass(frozen=True, slots=True)
class Between:
    """The distance from `old` to `new`, and the commits that only `new` has, newest first.

    `names` holds the commits of the two names, None for a name of no commit. If either is None,
    the distance is 0 and there are no commits.
    """

    names: list[str | None]
    distance: Distance
    commits: tuple[Commit, ...]


def between(repo: GitRepo, old: str, new: str, *, most: int) -> Between:
    """Compare two commits or annotated tags by full name; list at most `most` commits."""
    arguments, revisions = command(new, count=most, exclude=old)
    with ExitStack() as started:

        def start(subcommand: str, *args: str, stdin: bytes = b"") -> Started:
            return started.enter_context(repo.start(subcommand, *args, stdin=stdin))

        counting = start(*DISTANCE, stdin=f"{old}...{new}\n".encode())
        listing = start("log", *arguments, stdin=revisions)
        names = commits_of(repo, old, new)
        if None in names:
            return Between(names, Distance(0, 0), ())
        commits = parse_log(listing.result().out)
        lost, gained = counting.result().word.split()
    return Between(names, Distance(int(lost), int(gained)), tuple(commits))
