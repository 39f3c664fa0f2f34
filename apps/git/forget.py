"""Removing a commit, and what only it leads to, from a repository for good: a pushed secret."""

from collections.abc import Collection

from apps.git.graph import replace_graph
from apps.git.repo import GitRepo, is_sha, valid_ref_name
from apps.git.run import GitError


def refs_with(repo: GitRepo, sha: str) -> dict[str, str]:
    """Full name -> object of all refs that lead to a commit, those too that no client is shown."""
    out = repo.git("for-each-ref", "--format=%(objectname) %(refname)", f"--contains={_sha(sha)}")
    pairs = (line.split(" ", 1) for line in out.out.decode("utf-8", "surrogateescape").splitlines())
    return {name: at for at, name in pairs if valid_ref_name(name)}


def missing(repo: GitRepo, shas: Collection[str]) -> set[str]:
    """Which of these objects the repository does not have."""
    if not shas:
        return set()
    asked = "".join(f"{_sha(sha)}\n" for sha in shas).encode()
    lines = repo.git("cat-file", "--batch-check", stdin=asked).out.decode().splitlines()
    return {line.removesuffix(" missing") for line in lines if line.endswith(" missing")}


def prune(repo: GitRepo, sha: str) -> None:
    """Remove all objects that no ref leads to. `GitError` if this one is still there.

    Minutes on a large repository, in which nobody may write to it: git would take for unused what
    is about to be used.
    """
    plain = {"gc.writeCommitGraph": "false"}
    repo.git("gc", "--prune=now", "--quiet", config=plain)
    replace_graph(repo.path)
    if not missing(repo, [sha]):
        raise GitError(f"{sha} is still there")


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"no full object name: {text!r}")
    return text
