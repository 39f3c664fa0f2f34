"""Time of merging a small pull under gunicorn, compared with the git commands.

    .venv/bin/python bench/merge.py [gunicorn | gunicorn-asgi | serve]

200 files, one line changed. The two take turns. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import serving, take_turns

from apps.git.repo import GitRepo
from apps.git.run import _CONFIG

ROUNDS, FILES = int(os.environ.get("ROUNDS", "40")), 200
WARM_UP = 3
SHELL = """
set -e
set -- $(git rev-parse refs/heads/main "$1")
tree=$(git merge-tree --write-tree --name-only --no-messages "$1" "$2")
made=$(git commit-tree -p "$1" -p "$2" -m "Merge" "$tree")
git update-ref refs/heads/main "$made" "$1"
"""


def history(branches: int) -> bytes:
    """Input of `git fast-import`: `main`, and branches that each change a line of another file."""
    text = b"".join(b"line %d\n" % number for number in range(50))
    out = b"commit refs/heads/main\nmark :1\ncommitter A <a@example.org> 1700000000 +0000\n"
    out += b"data 1\nx\n"
    for number in range(FILES):
        out += b"M 100644 inline dir-%d/file-%d\ndata %d\n%b\n" % (
            *(number % 10, number, len(text), text),
        )
    changed = text.replace(b"line 7\n", b"line seven\n")
    for number in range(branches):
        out += b"commit refs/heads/topic-%d\n" % number
        out += b"committer A <a@example.org> 1700000001 +0000\ndata 1\nx\nfrom :1\n"
        out += b"M 100644 inline dir-%d/file-%d\ndata %d\n%b\n" % (
            *(number % 10, number, len(changed), changed),
        )
    return out


class Ours:
    """A pull for each branch, merged by the API."""

    def __init__(self, server, source: Path) -> None:
        self.alice = server.api("alice")
        self.alice.post("/users/alice/repos", name="Api", slug="api").gives(201)
        address = server.url.replace("://", f"://any:{server.token('alice')}@")
        target = f"{address}/users/alice/api.git"
        push = ["git", f"--git-dir={source}", "push", "--quiet", target]
        subprocess.run([*push, "refs/heads/*:refs/heads/*"], check=True)

    def prepare(self, number: int) -> Callable[[], None]:
        body = {"title": "x", "body": "", "target_branch": "main"}
        pulls = "/users/alice/repos/api/pulls"
        made = self.alice.post(pulls, source_branch=f"topic-{number}", **body).gives(201)
        return lambda: self.alice.post(f"{pulls}/{made['number']}/merge").gives()


class Shell:
    """The same branches in a bare repository with the same configuration."""

    def __init__(self, source: Path, config: dict[str, str]) -> None:
        names = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(config)}
        values = {f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(config.values())}
        self.environment = {
            "PATH": os.environ["PATH"],
            "GIT_DIR": str(source),
            "GIT_CONFIG_COUNT": str(len(config)),
            **{f"GIT_{role}_{what}": "a@example.org" for role in ROLES for what in WHAT},
            **names,
            **values,
        }

    def prepare(self, number: int) -> Callable[[], None]:
        command = ["sh", "-c", SHELL, "sh", f"refs/heads/topic-{number}"]
        return lambda: subprocess.run(command, env=self.environment, check=True)


ROLES, WHAT = ("AUTHOR", "COMMITTER"), ("NAME", "EMAIL")


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "gunicorn"
    with serving(kind) as (server, folder):
        source = folder / "shell.git"
        GitRepo(source).create("main")
        command = ["git", f"--git-dir={source}", "fast-import", "--quiet"]
        subprocess.run(command, input=history(ROUNDS + WARM_UP), check=True)
        sides = {"Guildhall": Ours(server, source), "shell": Shell(source, _CONFIG)}
        ways = {name: side.prepare for name, side in sides.items()}
        took = take_turns(ways, ROUNDS, WARM_UP)
    print(f"{kind}, {FILES} files, {ROUNDS} merges each, medians")
    for side, found in took.items():
        middle, least, most = (1000 * of(found) for of in (statistics.median, min, max))
        print(f"  {side:10} {middle:6.1f} ms ({least:.1f} to {most:.1f})")
    ours, theirs = (statistics.median(took[side]) for side in ("Guildhall", "shell"))
    print(f"  {ours / theirs:.2f} times the shell")


if __name__ == "__main__":
    main()
