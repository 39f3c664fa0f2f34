"""A generated repository as large as git/git, always the same, created once and cached.

    .venv/bin/python bench/snapshot.py [folder]

100,000 commits of 5,000 files, 4,000 tags and 30 branches, for bench/browse.py and bench/crawler.py
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

COMMITS, FILES, TAGS, BRANCHES = 100_000, 5_000, 4_000, 30
SEED = 15
LINES = 60
LARGE = "src/large.c"
"""A file of 7,000 lines, for blame."""
PEOPLE = [f"Person {n} <p{n}@example.org>" for n in range(300)]
BEGINS_AT = 1_200_000_000
WORDS = ["branch", "commit", "diff", "fetch", "index", "merge", "object", "pack", "push"]
WORDS += ["ref", "remote", "tree", "walk"]


def folder() -> Path:
    """The folder for it: the first argument that is not an option, else beside temporary files."""
    given = [one for one in sys.argv[1:] if not one.startswith("-")]
    return Path(given[0] if given else tempfile.gettempdir()) / "guildhall-snapshot.git"


def snapshot() -> Path:
    """The bare repository, created if it does not exist, in some minutes."""
    made = folder()
    if (made / "complete").exists():
        return made
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", made], check=True)
    command = ["git", f"--git-dir={made}", "fast-import", "--quiet", "--force", "--done"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        History(cast(IO[bytes], process.stdin)).write()
    if process.returncode:
        sys.exit("git fast-import failed")
    subprocess.run(["git", f"--git-dir={made}", "pack-refs", "--all"], check=True)
    (made / "complete").touch()
    return made


def paths() -> Iterator[str]:
    """Half of the files are in nested folders, as in an old project."""
    for n in range(FILES - 1):
        yield f"{WORDS[n % 13]}/{WORDS[n // 13 % 13]}/file{n}.c" if n % 2 else f"t/t{n:04}.sh"


class History:
    """Writes commits for `git fast-import`; a mark is the number of the commit, from 1."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.random = out, random.Random(SEED)  # noqa: S311 - no secret
        self.paths = list(paths())
        self.mark = 0

    def write(self) -> None:
        self.begin()
        side: list[int] = []
        main = self.mark
        while self.mark < COMMITS:
            if self.mark % 10 == 1 and self.mark > 10:
                side.append(self.commit([main]))
            elif self.mark % 10 == 0 and side:
                main = self.commit([main, side.pop()])
            else:
                main = self.commit([main])
        self.end()

    def begin(self) -> None:
        self.head([])
        for path in self.paths:
            self.file(path, self.text(LINES))
        self.file(LARGE, self.text(7000))

    def commit(self, parents: list[int]) -> int:
        """One to three files change; one commit in 100 changes a line of the large one."""
        self.head(parents)
        for path in self.random.sample(self.paths, 1 if self.mark % 4 else 3):
            self.file(path, self.text(LINES))
        if self.mark % 100 == 0:
            self.file(LARGE, self.text(7000))
        return self.mark

    def head(self, parents: list[int]) -> None:
        self.mark += 1
        who = self.random.choice(PEOPLE)
        message = f"{self.random.choice(WORDS)}: change {self.mark}\n\nWhat it is for.\n"
        lines = [f"commit refs/heads/main\nmark :{self.mark}"]
        lines += [f"author {who} {BEGINS_AT + self.mark * 3600} +0100"]
        lines += [f"committer {who} {BEGINS_AT + self.mark * 3600} +0100"]
        lines += [f"data {len(message)}\n{message}"]
        lines += [f"{'merge' if n else 'from'} :{mark}" for n, mark in enumerate(parents)]
        self.say("\n".join(lines) + "\n")

    def text(self, lines: int) -> str:
        """Most lines are constant; one is new."""
        changed = self.random.randrange(lines)
        same = (f"line {n} of a text\n" for n in range(lines))
        return "".join(
            f"changed in {self.mark}\n" if n == changed else one for n, one in enumerate(same)
        )

    def file(self, path: str, text: str) -> None:
        self.say(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")

    def say(self, text: str) -> None:
        self.out.write(text.encode())

    def end(self) -> None:
        for n in range(TAGS):
            mark = 1 + n * (self.mark - 1) // TAGS
            if n % 2:
                who = f"tagger T <t@example.org> {BEGINS_AT} +0000"
                self.say(f"tag v{n}\nfrom :{mark}\n{who}\ndata 2\nv\n")
            else:
                self.say(f"reset refs/tags/v{n}\nfrom :{mark}\n\n")
        for n in range(BRANCHES - 1):
            self.say(f"reset refs/heads/topic-{n}\nfrom :{self.mark - n * 50}\n\n")
        self.say("done\n")


if __name__ == "__main__":
    print(snapshot())
