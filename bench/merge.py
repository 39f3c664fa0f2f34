"""Time of merging a small pull under gunicorn, compared with the git commands.

    .venv/bin/python bench/merge.py [gunicorn | gunicorn-asgi | serve]

200 files, one line changed. The two take turns. See bench/README.md.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
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
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    import django

    django.setup()
    from apps.git.repo import GitRepo
    from apps.git.run import _CONFIG
    from tests.server import Server

    kind = sys.argv[1] if len(sys.argv) > 1 else "gunicorn"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "shell.git"
        GitRepo(source).create("main")
        command = ["git", f"--git-dir={source}", "fast-import", "--quiet"]
        subprocess.run(command, input=history(ROUNDS + WARM_UP), check=True)
        (Path(name) / "ours").mkdir()
        with Server(Path(name) / "ours", kind) as server:
            sides = {"Guildhall": Ours(server, source), "shell": Shell(source, _CONFIG)}
            compare(kind, sides)


def compare(kind: str, sides: dict) -> None:
    took: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(ROUNDS + WARM_UP):
        for side in sorted(sides, reverse=bool(number % 2)):
            run = sides[side].prepare(number)
            begin = time.perf_counter()
            run()
            if number >= WARM_UP:
                took[side].append(1000 * (time.perf_counter() - begin))
    print(f"{kind}, {FILES} files, {ROUNDS} merges each, medians")
    for side, found in took.items():
        middle, spread = statistics.median(found), f"{min(found):.1f} to {max(found):.1f}"
        print(f"  {side:10} {middle:6.1f} ms ({spread})")
    ours, theirs = (statistics.median(took[side]) for side in ("Guildhall", "shell"))
    print(f"  {ours / theirs:.2f} times the shell")


if __name__ == "__main__":
    main()
