"""The commits of the demo, imported from streams of git-fast-import(1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.git.repo import GitRepo

FOLDER = Path(__file__).parent / "files"
BINARIES = ("curve.png", "new-moons.bin")
"""Files that the streams name by the marks `:1` and `:2`, because a text cannot hold them."""
LOADED = 1_800_000_000
"""The time of loading, in the dates of the streams."""
DATE = re.compile(rb"^((?:author|committer|tagger) .*> )(\d+)(?= \+0000$)", re.M)


@contextmanager
def imported(now: float) -> Iterator[GitRepo]:
    """A repository with all commits of the streams, deleted at the end; dates as in `stream`."""
    with TemporaryDirectory() as folder:
        git = GitRepo(Path(folder) / "demo.git")
        git.create()
        git.git("fast-import", "--quiet", "--date-format=raw", stdin=stream(now))
        yield git


def stream(now: float) -> bytes:
    """All streams as one, dated so that they were written shortly before `now`."""
    later = int(now) - LOADED
    blobs = [blob(mark, FOLDER / name) for mark, name in enumerate(BINARIES, start=1)]
    texts = [path.read_bytes() for path in sorted(FOLDER.glob("*.fast-import"))]
    dated = (DATE.sub(lambda at: at[1] + b"%d" % (int(at[2]) + later), text) for text in texts)
    return b"".join([*blobs, *dated])


def blob(mark: int, path: Path) -> bytes:
    """The command that imports a file under a mark."""
    content = path.read_bytes()
    return b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(content), content)
