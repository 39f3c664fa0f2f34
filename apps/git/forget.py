"""Removes a commit, such as one with a secret, and the objects that only it reaches, for good."""

from collections.abc import Collection

from apps.git.graph import replace_graph
from apps.git.repo import GitRepo, is_sha, valid_ref_name
from apps.git.run import GitError


def refs_with(repo: GitRepo, sha: str) -> dict[str, str]:
    """Full name -> object of all refs that contain a commit, hidden refs included."""
    out = repo.git("for-each-ref", "--format=%(objectname) %(refname)", f"--contains={_sha(sha)}")
    pairs = (line.split(" ", 1) for line in out.out.decode("utf-8", "surrogateescape").splitlines())
    return {name: at for at, name in pairs if valid_ref_name(name)}


def missing(repo: GitRepo, shas: Collection[str]) -> set[str]:
    """The objects among `shas` that the repository does not have."""
    if not shas:
        return set()
    stdin = "".join(f"{_sha(sha)}\n" for sha in shas).encode()
    lines = repo.git("cat-file", "--batch-check", stdin=stdin).out.decode().splitlines()
    return {line.removesuffix(" missing") for line in lines if line.endswith(" missing")}


def prune(repo: GitRepo, sha: str) -> None:
    """Remove all objects that no ref reaches. `GitError` if the object `sha` is still there.

    Takes minutes on a large repository. Nobody may write to it meanwhile: git would also remove
    new objects that no ref reaches yet.
    """
    plain = {"gc.writeCommitGraph": "false"}
    repo.git("gc", "--prune=now", "--quiet", config=plain)
    replace_graph(repo.path)
    if not missing(repo, [sha]):
        raise GitError(f"{sha} is still there")


def _sha(text: str) -> str:
    if not is_sha(text):
        raise ValueError(f"not a full object name: {text!r}")
    return text
