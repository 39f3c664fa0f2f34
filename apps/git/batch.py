"""git processes that stay, and answer many questions about small objects.

Starting a git takes milliseconds, most questions take it microseconds. Each git that stays is ended
after any error, because the rest of an answer could be taken for that to the next question.
"""

import atexit
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from select import POLLIN, POLLOUT, poll
from threading import Condition, Thread
from typing import IO, Final, TypeAlias, TypeVar, cast

from apps.git.run import (
    LIMITS,
    GitError,
    GitTimeout,
    Result,
    failure_of,
    kill_group,
    start_batch,
    write_some,
)

T = TypeVar("T")
CONTENT_MAX: Final = 1024 * 1024
"""Most bytes of an object that is read here. Other gits, which end, read the larger ones."""
MOST: Final = 16
"""Most gits of this process that stay."""
AGE: Final = 300.0
"""Seconds after which a git answers no further question."""
IDLE: Final = 60.0
"""Seconds after which a git without a question is ended."""
MEMORY_MAX: Final = 32 * 1024 * 1024
"""Bytes of memory. A git that has more after an answer is ended: it keeps objects it has parsed."""
_PIECE: Final = 65536
_STDERR_MAX: Final = 65536
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_LINE: Final = re.compile(rb"([0-9a-f]{40}) ([a-z]+) (\d+)\n")

State: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """The name, type and size in bytes of an object."""

    sha: str
    kind: str
    size: int


class Batch:
    """A git that answers questions about objects, in the order in which they are asked.

    After an error it is of no further use.
    """

    def __init__(self, git_dir: Path, env: Mapping[str, str] | None = None) -> None:
        self.git_dir, self.ends = git_dir, inf
        self.state = state_of(git_dir)  # before git looks at the folder
        self.born = time.monotonic()
        self.process = start_batch(git_dir, env)
        self.stdin, self.stdout, self.stderr = (
            cast(IO[bytes], pipe)
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr)
        )
        os.set_blocking(self.stdin.fileno(), False)
        os.set_blocking(self.stderr.fileno(), False)
        self.out, self.err, self.rest = bytearray(), bytearray(), memoryview(b"")
        self.is_answering = False
        self.pipes = poll()
        self.pipes.register(self.stdout, POLLIN)
        self.pipes.register(self.stderr, POLLIN)

    def info(self, *names: bytes) -> list[Header | None]:
        """The type and size of each of these objects; None for a name of no object.

        A name is a full object name, which `^{commit}`, or a colon and a path, may follow.
        """
        self._send(b"info", names)
        headers = [self._header(name) for name in names]
        self.is_answering = False
        return headers

    def contents(self, *headers: Header) -> list[bytes]:
        """The bytes of these objects, each of at most `CONTENT_MAX`. `GitError` if one is missing
        or damaged.
        """
        if any(header.size > CONTENT_MAX for header in headers):
            raise ValueError("the object is too large")
        names = [header.sha.encode() for header in headers]
        self._send(b"contents", names)
        contents = []
        for header, name in zip(headers, names, strict=True):
            if self._header(name) != header:
                raise GitError(f"object {header.sha} is missing")
            content = self._read(header.size + 1)
            if not content.endswith(b"\n"):
                raise GitError("unexpected output of git cat-file")
            contents.append(content[:-1])
        self.is_answering = False
        return contents

    def is_quiet(self) -> bool:
        """Whether all answers were read to their end, and git wrote nothing else."""
        return not (self.is_answering or self.out or self.err or self.rest or self.pipes.poll(0))

    def can_stay(self) -> bool:
        """Whether git may answer another question, now or later."""
        is_young = time.monotonic() < self.born + AGE
        return is_young and self.is_quiet() and self.memory() <= MEMORY_MAX

    def is_fresh(self) -> bool:
        """Whether git can answer now, and has seen the current packs."""
        is_young = time.monotonic() < self.born + AGE
        return is_young and self.is_quiet() and self.state == state_of(self.git_dir)

    def memory(self) -> int:
        """The bytes of memory that `RLIMIT_DATA` limits, and of the stack."""
        try:
            fields = Path(f"/proc/{self.process.pid}/statm").read_bytes().split()
        except OSError:
            return 0
        return int(fields[5]) * _PAGE

    def end(self) -> None:
        """End git and close its pipes."""
        kill_group(self.process)
        self.close()

    def close(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    def _send(self, command: bytes, names: Sequence[bytes]) -> None:
        if any(b"\0" in name for name in names):
            raise ValueError("a name contains NUL")
        self.is_answering = True
        lines = b"".join(b"%b %b\0" % (command, name) for name in names)
        self.rest = write_some(self.stdin.fileno(), memoryview(lines + b"flush\0"))
        if self.rest:
            self.pipes.register(self.stdin, POLLOUT)

    def _header(self, name: bytes) -> Header | None:
        absent = name + b" missing\n"
        while not (match := _LINE.match(self.out)):
            if self.out.startswith(absent):
                del self.out[: len(absent)]
                return None
            if len(self.out) > len(absent) or (
                b"\n" in self.out and not absent.startswith(self.out)
            ):
                raise GitError("unexpected output of git cat-file")
            self._more()
        sha, kind, size = match.groups()
        del self.out[: match.end()]
        return Header(sha.decode(), kind.decode(), int(size))

    def _read(self, size: int) -> bytes:
        while len(self.out) < size:
            self._more()
        content = bytes(self.out[:size])
        del self.out[:size]
        return content

    def _more(self) -> None:
        """Wait until git has written more. Meanwhile write the rest of the question."""
        size = len(self.out)
        while len(self.out) == size:
            left = self.ends - time.monotonic()
            if left <= 0:
                raise GitTimeout("git cat-file took too long to answer")
            for pipe, _ in self.pipes.poll(ceil(left * 1000)):
                if pipe == self.stdin.fileno():
                    self.rest = write_some(pipe, self.rest)
                    if not self.rest:
                        self.pipes.unregister(pipe)
                elif piece := os.read(pipe, _PIECE):
                    (self.out if pipe == self.stdout.fileno() else self.err).extend(piece)
                    del self.err[_STDERR_MAX:]
                elif pipe == self.stdout.fileno():
                    raise self._ended()
                else:
                    self.pipes.unregister(pipe)

    def _ended(self) -> GitError:
        kill_group(self.process)
        with suppress(BlockingIOError):
            while len(self.err) < _STDERR_MAX and (piece := os.read(self.stderr.fileno(), _PIECE)):
                self.err += piece
        result = Result(self.process.wait(), b"", bytes(self.err))
        return failure_of("cat-file", result)


def state_of(git_dir: Path) -> State:
    """A value that changes when packs are added or removed, or another repository takes the place
    of this one. Single objects do not change it: git looks for them each time.
    """
    with suppress(OSError):
        folder, packs = os.stat(git_dir), os.stat(git_dir / "objects" / "pack")
        return folder.st_dev, folder.st_ino, packs.st_ino, packs.st_mtime_ns, packs.st_ctime_ns
    return (object(),)  # equals no other


class Pool:
    """The gits that stay, of one process."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.all: set[Batch] = set()
        self.idle: dict[Batch, float] = {}
        """Gits without a question, and the times at which they are to be ended."""
        self.is_reaping = False

    def take(self, git_dir: Path) -> Batch | None:
        """The git of this repository that answered last, if it can answer again."""
        while batch := self._next(git_dir):
            if batch.is_fresh():
                return batch
            self.end([batch])
        return None

    def _next(self, git_dir: Path) -> Batch | None:
        with self.changed:
            batch = next((one for one in reversed(self.idle) if one.git_dir == git_dir), None)
            if batch:
                del self.idle[batch]
            return batch

    def start(self, git_dir: Path) -> Batch:
        """Start a git. If there are too many, the one that has been idle longest is ended."""
        with self.changed:
            surplus = [*self.idle][: max(0, len(self.all) + 1 - MOST)]
            for old in surplus:
                del self.idle[old]
        self.end(surplus)
        batch = Batch(git_dir)
        with self.changed:
            self.all.add(batch)
        return batch

    def put_back(self, batch: Batch) -> None:
        """Keep a git that has answered, if it can stay."""
        can_stay = batch.can_stay()
        with self.changed:
            stays = can_stay and len(self.all) <= MOST
            if stays:
                self.idle[batch] = min(time.monotonic() + IDLE, batch.born + AGE)
            starts = stays and not self.is_reaping
            self.is_reaping = self.is_reaping or starts
        if starts:
            Thread(target=self._reap, name="reaper of idle gits", daemon=True).start()
        if not stays:
            self.end([batch])

    def end(self, batches: Iterable[Batch]) -> None:
        """End gits that no longer are among the idle ones."""
        for batch in batches:
            batch.end()
            with self.changed:
                self.all.discard(batch)

    def end_idle(self) -> None:
        """End all gits that have no question."""
        with self.changed:
            batches = [*self.idle]
            self.idle.clear()
            self.changed.notify_all()
        self.end(batches)

    def _reap(self) -> None:
        """End idle gits when their time has come, until there are none."""
        while True:
            with self.changed:
                now = time.monotonic()
                expired = [batch for batch, ends in self.idle.items() if ends <= now]
                for batch in expired:
                    del self.idle[batch]
                if not expired:
                    if not self.idle:
                        self.is_reaping = False
                        return
                    self.changed.wait(min(self.idle.values()) - now)
            self.end(expired)


_pool = Pool()


def ask(
    git_dir: Path,
    question: Callable[[Batch], T],
    *,
    env: Mapping[str, str] | None = None,
    ends: float = inf,
) -> T:
    """The answer of a git that stays to a question about small objects.

    `question` may be called twice: if an old git fails, for example because it has ended, a new one
    is asked. `GitTimeout` after the deadline of `cat-file`, or at `ends` by `time.monotonic` if
    that is earlier; `GitError` and its subclasses for other failures. With `env`, git does not
    stay.
    """
    ends, pool = min(ends, time.monotonic() + LIMITS["cat-file"].deadline), _pool
    if env:
        return _ask_once(Batch(git_dir, env), question, ends)
    if batch := pool.take(git_dir):
        try:
            return _ask(pool, batch, question, ends, is_new=False)
        except GitTimeout:
            raise
        except GitError:
            pass
    return _ask(pool, pool.start(git_dir), question, ends, is_new=True)


def _ask_once(batch: Batch, question: Callable[[Batch], T], ends: float) -> T:
    batch.ends = ends
    try:
        return question(batch)
    finally:
        batch.end()


def _ask(
    pool: Pool, batch: Batch, question: Callable[[Batch], T], ends: float, *, is_new: bool
) -> T:
    batch.ends = ends
    try:
        answer = question(batch)
        if not is_new and not batch.is_quiet():  # perhaps it tells why it found nothing
            raise GitError("git cat-file wrote more than its answer")
    except BaseException:
        pool.end([batch])
        raise
    pool.put_back(batch)
    return answer


def end_idle() -> None:
    """End the gits of this process that have no question."""
    _pool.end_idle()


def _forget() -> None:
    """In a forked process: the gits belong to the other one, and end when it closes their input."""
    global _pool
    inherited, _pool = _pool, Pool()
    for batch in inherited.all:
        batch.process.returncode = 0  # not our child
        batch.close()


os.register_at_fork(after_in_child=_forget)
atexit.register(end_idle)
