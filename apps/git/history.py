"""Questions about the history of several commits at once."""

from apps.git.repo import GitRepo, is_sha


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
