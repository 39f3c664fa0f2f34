"""What one commit has that another one has not, by gits that run beside each other."""

from contextlib import ExitStack
from dataclasses import dataclass

from apps.git.log import Commit, command, parse_log
from apps.git.repo import DISTANCE, Distance, GitRepo
from apps.git.run import Started
from apps.git.tree import ask_for_commits, read_commits


@dataclass(frozen=True, slots=True)
class Between:
    """How far `new` is from `old`, and the newest commits that only `new` has, newest first.

    `names` are the commits that the two names lead to: None for one that leads to none, and then
    the others say nothing.
    """

    names: list[str | None]
    distance: Distance
    commits: tuple[Commit, ...]


def between(repo: GitRepo, old: str, new: str, *, most: int) -> Between:
    """Ask about these two commits, or the tags that lead to them; at most so many are listed."""
    arguments, wanted = command(new, count=most, exclude=old)
    with ExitStack() as started:

        def start(subcommand: str, *args: str, stdin: bytes = b"") -> Started:
            return started.enter_context(repo.start(subcommand, *args, stdin=stdin))

        counting = start(*DISTANCE, stdin=f"{old}...{new}\n".encode())
        listing = start("log", *arguments, stdin=wanted)
        options, stdin = ask_for_commits(old, new)
        names = read_commits(start("cat-file", *options, stdin=stdin).result())
        if None in names:
            return Between(names, Distance(0, 0), ())
        commits = parse_log(listing.result().out)
        lost, gained = counting.result().word.split()
    return Between(names, Distance(int(lost), int(gained)), tuple(commits))
