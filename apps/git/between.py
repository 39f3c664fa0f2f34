"""Compare two commits with several git processes that run at the same time."""

from contextlib import ExitStack
from dataclasses import dataclass

from apps.git.log import Commit, command, parse_log
from apps.git.repo import DISTANCE, Distance, GitRepo
from apps.git.run import Started
from apps.git.tree import ask_for_commits, read_commits


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
        options, stdin = ask_for_commits(old, new)
        names = read_commits(start("cat-file", *options, stdin=stdin).result())
        if None in names:
            return Between(names, Distance(0, 0), ())
        commits = parse_log(listing.result().out)
        lost, gained = counting.result().word.split()
    return Between(names, Distance(int(lost), int(gained)), tuple(commits))
