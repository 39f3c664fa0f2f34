"""Questions about several commits at once."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from apps.git.repo import Distance, GitRepo, is_sha
from apps.git.run import GitError

_SHORT: Final = re.compile(r"[0-9a-f]{4,40}\Z")


def find_commits(repo: GitRepo, names: Collection[str]) -> dict[str, str]:
    """Name -> full name of those of these commits that are here; one git for all, and another one
    for those of short names.

    A name has 4 to 40 hexadecimal digits in lower case. One that several commits share is not
    found, nor is one that is a branch as well. By a short name only what clients are shown is
    found: whoever knows the full name of another commit can fetch it, so nobody may guess one.
    """
    wanted = [name for name in names if _SHORT.match(name)]
    if not wanted:
        return {}
    form, stdin = "--batch-check=%(objectname) %(objecttype)", "\n".join([*wanted, ""])
    config = {"core.disambiguate": "commit"}
    out = repo.git("cat-file", form, stdin=stdin.encode(), config=config).out.decode()
    answers = [line.split(" ") for line in out.splitlines()]
    found = {
        name: sha
        for name, (sha, kind) in zip(wanted, answers, strict=True)
        if kind == "commit" and sha.startswith(name)
    }
    hidden = _hidden(repo, {sha for name, sha in found.items() if name != sha})
    return {name: sha for name, sha in found.items() if name == sha or sha not in hidden}


def _hidden(repo: GitRepo, shas: Collection[str]) -> set[str]:
    """Which of these commits no branch, tag or head of a pull leads to."""
    if not shas:
        return set()
    shown = ("--branches", "--tags", "--glob=refs/pull/*")
    stdin = "\n".join([*shas, ""]).encode()
    out = repo.git("rev-list", "--stdin", "--not", *shown, stdin=stdin).out.decode()
    return {*out.splitlines()}.intersection(shas)


def heads_sharing(repo: GitRepo, old: str, new: str, heads: frozenset[str]) -> frozenset[str]:
    """Which of `heads` have a commit that `new` has and `old` has not. One git for all of them.

    Heads that git lacks share nothing. `GitTooLarge` past some hundred thousand commits.
    """
    if not all(map(is_sha, (old, new, *heads))):
        raise ValueError("full object names are needed")
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


def distances(repo: GitRepo, pairs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Distance]:
    """`GitRepo.distance` of each (old, new), by two gits for all of them together.

    Pairs that git cannot compare are left out. Where it cannot compare all at once, because an
    object is missing or the history is too long for one answer, each is asked about by itself.
    """
    pairs = list(dict.fromkeys(pairs))
    if not all(is_sha(sha) for pair in pairs for sha in pair):
        raise ValueError("full object names are needed")
    if len(pairs) > 1:
        with suppress(GitError):
            return _distances_at_once(repo, pairs)
    found = {}
    for old, new in pairs:
        with suppress(GitError):
            found[old, new] = repo.distance(old, new)
    return found


def _distances_at_once(
    repo: GitRepo, pairs: list[tuple[str, str]]
) -> dict[tuple[str, str], Distance]:
    """Walk from all tips to what all have in common, noting at each commit which tips have it.

    Such a note is a number of which each bit stands for a pair.
    """
    tips = {sha for pair in pairs for sha in pair}
    base = repo.git("merge-base", "--octopus", *tips, ok=(0, 1)).word
    lines = [*tips, *([f"^{base}"] if base else []), ""]
    options = ("--topo-order", "--parents", "--stdin")
    history = repo.git("rev-list", *options, stdin="\n".join(lines).encode()).out.decode()
    of_old, of_new = defaultdict[str, int](int), defaultdict[str, int](int)
    for place, (old, new) in enumerate(pairs):
        of_old[old] |= 1 << place
        of_new[new] |= 1 << place
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
    return {pair: Distance(losses[at], gains[at]) for at, pair in enumerate(pairs)}


def _counts(noted: Counter[int], size: int) -> list[int]:
    """How often each of `size` bits was noted."""
    counts = [0] * size
    for bits, times in noted.items():
        rest = bits
        while rest:
            lowest = rest & -rest
            counts[lowest.bit_length() - 1] += times
            rest ^= lowest
    return counts
