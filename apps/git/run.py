"""Starts git processes; no other module does. `LIMITS` lists the allowed subcommands.

Each process has limits of output, memory and processor time, and a deadline at which its process
group is killed. Without them, 48 KB of hostile objects could use up the machine. Needs Linux
(`RLIMIT_DATA`, pidfd).
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from select import POLLIN, poll
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock, Thread
from typing import IO, Any, Final, TypeAlias, cast

from apps.git.protocol import Service
from apps.git.store import push_lock

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB
_PIECE: Final = 65536
"""Most bytes of one read or write."""
_STDERR_MAX: Final = 65536
_GRACE: Final = 1.0


GitProcess: TypeAlias = Popen[bytes]
StartedGit: TypeAlias = "AbstractContextManager[Started]"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one git process: a deadline in seconds, bytes of output, bytes of memory
    (`RLIMIT_DATA`), seconds of processor time of all threads together (`RLIMIT_CPU`).
    """

    deadline: float = 10
    output: int = 16 * _MIB
    memory: int = 256 * _MIB
    processor: int = 7200


LIMITS: Final[dict[str, Limits]] = {
    "archive": Limits(deadline=60, processor=60),
    "blame": Limits(output=8 * _MIB, processor=10),
    "bundle": Limits(deadline=3600, memory=_GIB),
    "cat-file": Limits(output=32 * _MIB),
    "commit-graph": Limits(deadline=60, memory=_GIB, processor=60),
    "diff": Limits(deadline=5, output=32 * _MIB, processor=5),
    "diff-tree": Limits(output=32 * _MIB),
    "fast-import": Limits(deadline=60),
    "fetch": Limits(deadline=600, memory=_GIB),
    "format-patch": Limits(output=32 * _MIB, processor=10),
    "for-each-ref": Limits(output=64 * _MIB),
    "fsck": Limits(deadline=3600, memory=_GIB),
    "gc": Limits(deadline=3600, memory=2 * _GIB),
    "hash-object": Limits(),
    "log": Limits(deadline=5, output=8 * _MIB, processor=5),
    "ls-tree": Limits(deadline=2, output=32 * _MIB, processor=2),
    "merge-base": Limits(),
    "merge-tree": Limits(deadline=20, memory=512 * _MIB),
    "pack-refs": Limits(deadline=60),
    "range-diff": Limits(output=2 * _MIB, processor=10),
    "rev-list": Limits(),
    "symbolic-ref": Limits(deadline=5),
    "unpack-objects": Limits(memory=512 * _MIB),
    "update-ref": Limits(deadline=5),  # runs while a row is locked
    "version": Limits(deadline=5),
}
# A pack may have any size: the output of a service has no limit.
SERVICE_LIMITS: Final = Limits(deadline=3600, memory=_GIB)
# Anonymous clients may clone. A clone of the Linux kernel takes a few minutes of processor time.
FETCH_LIMITS: Final = replace(SERVICE_LIMITS, processor=600)
BLOB_LIMITS: Final = Limits(deadline=3600, processor=60)
BATCH_PROCESSOR: Final = 60
"""Seconds of processor time of a git that answers many questions."""

# `preexec_fn` is slow and unsafe with threads. `prlimit` after the start can be milliseconds too
# late on a busy server: git has allocated its memory by then. The shell's script is constant.
_SHELL: Final = ("/bin/sh", "-c", 'ulimit -d "$0" && ulimit -t "$1" && shift && exec "$@"')
# With these options git first waits for its input, which is sent after `prlimit` has set the
# limits: no shell is needed. `--batch-check=…` counts as `--batch-check`.
_WAITS_FOR_INPUT: Final = {
    "cat-file": {"--batch", "--batch-check", "--batch-command"},
    "hash-object": {"--stdin"},
    "log": {"--stdin"},
    "merge-tree": {"--stdin"},
    "rev-list": {"--stdin"},
    "update-ref": {"--stdin"},
}
_prlimit: Final = getattr(resource, "prlimit", None)
_ENVIRONMENT: Final = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "PATH": os.environ.get("PATH", os.defpath),
    "TZ": "UTC",
}
# safe.directory: on a shared file system the repositories may belong to another user. core.fsync:
# by default, refs and single objects that git reported as written can be lost in a power cut.
_CONFIG: Final = {
    "core.fsync": "committed,loose-object,reference",
    "core.hooksPath": "/dev/null",
    "safe.directory": "*",
}


class GitError(Exception):
    """git failed. The text quotes its standard error; it is for logs, not for clients."""


class GitTimeout(GitError):
    """git exceeded its deadline. It may succeed on a less busy machine."""


class GitTooLarge(GitError):
    """git exceeded its limit of memory or output. Retrying does not help."""


class GitDiskFull(GitError):
    """git could not write: the disk is full, or the quota is used up."""


@dataclass(frozen=True, slots=True)
class Result:
    """The exit status and output of git; of standard error the first 64 KiB."""

    code: int
    out: bytes
    err: bytes

    @property
    def word(self) -> str:
        """The output as text without the line end, for an output of one word."""
        return self.out.decode("utf-8", "replace").strip()


spawned = 0
"""Number of git processes started in this process, for tests that expect none."""
_counting = Lock()
Observer: TypeAlias = Callable[[str, float | None], object]
observers: Final[list[Observer]] = []
"""Functions that are called with the subcommand of each git: when it starts, with None, and at its
end with its seconds. A git of `start_batch` has no end.
"""
started_here: ContextVar[int] = ContextVar("started_here", default=0)
"""Number of git processes started in this thread, for the log line of a request."""


def run_git(
    git_dir: Path,
    subcommand: str,
    *args: str,
    stdin: bytes = b"",
    ok: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    ends: float = inf,
    take: Callable[[bytes], object] | None = None,
    inherited: Sequence[int] = (),
) -> Result:
    """Run git and wait for its end. `GitError`, or a subclass, for a status outside `ok`.

    Arguments may contain no unchecked user text. `ends`: a time by `time.monotonic` that replaces
    the subcommand's deadline if it is earlier. `take` is called with each piece of the output; then
    the output is not stored and has no limit. `inherited`: file descriptors for git.
    """
    with start_git(
        git_dir,
        subcommand,
        *args,
        stdin=stdin,
        env=env,
        config=config,
        ends=ends,
        inherited=inherited,
    ) as git:
        return git.result(ok, take)


def read_git(
    git_dir: Path,
    subcommand: str,
    *args: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    ends: float = inf,
) -> Generator[bytes, None, None]:
    """Run git and yield its output in pieces, for output that should not be held in memory.

    Limits and errors are those of `run_git`. Errors are raised at the end of the output. Closing
    the iterator kills git.
    """
    with start_git(git_dir, subcommand, *args, stdin=stdin, env=env, ends=ends) as git:
        yield from git.pieces()
        git.check()


@contextmanager
def start_git(
    git_dir: Path,
    subcommand: str,
    *args: str,
    stdin: bytes | None = b"",
    env: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    ends: float = inf,
    inherited: Sequence[int] = (),
) -> Iterator["Started"]:
    """Start git without waiting for it. The end of the block kills it if it still runs.

    Limits and arguments are those of `run_git`; the deadline counts from here. With None as
    `stdin`, call `Started.feed` later: git starts meanwhile, and its deadline counts from there.
    """
    limits, begun = LIMITS[subcommand], time.monotonic()
    with _spawn(git_dir, subcommand, args, limits, PIPE, env, config, inherited) as process:
        try:
            yield Started(process, subcommand, stdin, ends)
        finally:
            kill_group(process)
            _observe(subcommand, time.monotonic() - begun)


def spawn_service(
    git_dir: Path,
    service: Service,
    *,
    advertise: bool = False,
    stateless: bool = True,
    protocol: str = "",
    config: Mapping[str, str] | None = None,
) -> GitProcess:
    """Start upload-pack or receive-pack for one stateless exchange over stdin and stdout, or a
    whole conversation.

    `protocol` is the client's `Git-Protocol` or `GIT_PROTOCOL`. Use the process in a `with` block,
    and call `kill_group` if the client disconnects. The group is killed after an hour at the
    latest.
    """
    options = [*(["--stateless-rpc"] if stateless else []), *(["--advertise-refs"] * advertise)]
    args = [*options, str(git_dir)]
    env = {"GIT_PROTOCOL": "version=2"} if "version=2" in protocol.split(":") else {}
    if service is Service.UPLOAD_PACK:
        process = _spawn(git_dir, service, args, FETCH_LIMITS, DEVNULL, env)
        return _watched(process, service, FETCH_LIMITS.deadline)
    with ExitStack() as stack:
        inherited = []
        with suppress(OSError):  # a file system without locks
            inherited.append(stack.enter_context(push_lock(git_dir)))
        process = _spawn(
            git_dir, service, args, SERVICE_LIMITS, DEVNULL, env, config, inherited=inherited
        )
    return _watched(process, service, SERVICE_LIMITS.deadline)


def spawn_archive(git_dir: Path, *args: str) -> GitProcess:
    """Start `git archive`. Use and end the process like that of `spawn_service`.

    git gets the objects of the repository but no refs: with `export-subst`, a file can expand to
    the names of refs, some of which are hidden, and which change with each push.
    """
    limits, env = LIMITS["archive"], {"GIT_OBJECT_DIRECTORY": str(git_dir.resolve() / "objects")}
    # With `export-subst` a file can have the commit's signature verified, by these programs.
    config = {f"gpg.{kind}program": "false" for kind in ("", "ssh.", "x509.")}
    config |= {"core.bare": "true", "core.bigFileThreshold": "32m"}  # as in `CONFIG`
    process = _spawn(_without_refs(git_dir), "archive", args, limits, DEVNULL, env, config)
    return _watched(process, "archive", limits.deadline)


def _without_refs(git_dir: Path) -> Path:
    """The folder of a repository without refs, for `git archive`. Created if it is missing."""
    empty = git_dir / "without-refs"
    try:
        for folder in (empty, empty / "refs"):
            folder.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (empty / "HEAD").symlink_to("refs/heads/none")  # atomic
    except OSError as error:
        raise GitError(f"git archive could not start: {error.strerror}") from error
    return empty


def spawn_blob(git_dir: Path, sha: str) -> GitProcess:
    """Start a git that writes one blob. Use and end the process like that of `spawn_service`."""
    process = _spawn(git_dir, "cat-file", ["blob", sha], BLOB_LIMITS, DEVNULL, None)
    return _watched(process, "cat-file", BLOB_LIMITS.deadline)


def start_batch(git_dir: Path, env: Mapping[str, str] | None = None) -> GitProcess:
    """Start a git that answers questions about objects until its input is closed.

    It answers at each `flush`. It has the limits of `cat-file`, but the deadline of each question
    is up to the caller, who ends git with `kill_group`.
    """
    limits = replace(LIMITS["cat-file"], processor=BATCH_PROCESSOR)
    # By default, git caches up to 96 MiB of objects that others are stored as differences from.
    config = {"core.deltaBaseCacheLimit": "16m"}
    options = ["--batch-command", "--buffer", "-z"]
    return _spawn(git_dir, "cat-file", options, limits, PIPE, env, config)


def ends_well(process: GitProcess, seconds: float) -> bool:
    """Whether the process succeeds within `seconds`."""
    return _ends_within(process, seconds) and process.wait() == 0


def kill_group(process: GitProcess) -> None:
    """Kill the process and its children, within a second. Does nothing if it has ended.

    It sends TERM first, so that git removes its lock files: after a KILL a branch could stay locked
    for ever. Unfinished packs are left to `GitRepo.upkeep`, the folder of a push to
    `GitRepo.remove_quarantines`.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        _ends_within(process, _GRACE)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _spawn(
    git_dir: Path,
    subcommand: str,
    args: Sequence[str],
    limits: Limits,
    stderr: int,
    env: Mapping[str, str] | None,
    config: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> GitProcess:
    global spawned
    settings = {**_CONFIG, **(config or {})}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = ["git", *options, f"--git-dir={git_dir}", subcommand, *args]
    option_names = {arg.partition("=")[0] for arg in args}
    waits = not _WAITS_FOR_INPUT.get(subcommand, set()).isdisjoint(option_names)
    prlimit = _prlimit if waits else None
    if prlimit is None:
        command = [*_SHELL, str(limits.memory // 1024), str(limits.processor), *command]
    try:
        process = open_process(
            command, stderr=stderr, env={**_ENVIRONMENT, **(env or {})}, pass_fds=inherited
        )
    except OSError as error:
        raise GitError(f"git {subcommand} could not start: {error.strerror}") from error
    with _counting:
        spawned += 1
    started_here.set(started_here.get() + 1)
    _observe(subcommand, None)
    if prlimit is not None:
        _set_limits(process, limits, prlimit)
    return process


def open_process(command: Sequence[str], *, stderr: int, **options: Any) -> GitProcess:
    """`Popen` in a session of its own, with pipes to its stdin and stdout. `OSError`.

    Without enough file descriptors for all pipes, `Popen` leaves those that it has made open.
    """
    with ExitStack() as made:
        pipes = [_pipe(made) for _ in range(3 if stderr == PIPE else 2)]
        (reads, stdin), (stdout, writes), *others = pipes
        errors, stderr_end = others[0] if others else (None, stderr)
        process = Popen(
            command,
            stdin=reads,
            stdout=writes,
            stderr=stderr_end,
            start_new_session=True,
            **options,
        )
        process.stdin, process.stdout, process.stderr = stdin, stdout, errors
        made.pop_all()
    for end in (reads, writes, stderr_end):
        if not isinstance(end, int):
            end.close()
    return process


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """The reading and the writing end of a pipe, which the stack closes."""
    reading, writing = os.pipe()
    return stack.enter_context(open(reading, "rb")), stack.enter_context(open(writing, "wb"))


def _observe(subcommand: str, seconds: float | None) -> None:
    for observer in observers:
        observer(subcommand, seconds)


def _set_limits(process: GitProcess, limits: Limits, prlimit: Callable[..., object]) -> None:
    """Set the limits of a git that still waits for its input and has not been reaped."""
    try:
        prlimit(process.pid, resource.RLIMIT_DATA, (limits.memory, limits.memory))
        prlimit(process.pid, resource.RLIMIT_CPU, (limits.processor, limits.processor))
    except (OSError, ValueError) as error:
        with process:  # closes its pipes
            kill_group(process)
        raise GitError(f"limits of git could not be set: {error}") from error


class Started:
    """A running git that has got as much of its input as fits. Its output can be read once."""

    def __init__(
        self, process: GitProcess, subcommand: str, stdin: bytes | None, ends: float
    ) -> None:
        self.process, self.subcommand, self.limits = process, subcommand, LIMITS[subcommand]
        self.latest = ends
        self.err = bytearray()
        self.rest = memoryview(b"")
        if stdin is not None:
            self.feed(stdin)

    def feed(self, stdin: bytes) -> "Started":
        """Give git all of its input, from which on its deadline counts. Call it once, if
        `start_git` was called without the input.
        """
        self.ends = min(self.latest, time.monotonic() + self.limits.deadline)
        pipe = cast(IO[bytes], self.process.stdin)
        # With a blocking pipe, a long input and git's output could wait for each other.
        os.set_blocking(pipe.fileno(), False)
        self.rest = write_some(pipe.fileno(), memoryview(stdin))
        if not self.rest:
            pipe.close()
        return self

    def result(
        self, ok: tuple[int, ...] = (0,), take: Callable[[bytes], object] | None = None
    ) -> Result:
        """Wait for the end of git. For `ok`, `take` and errors see `run_git`."""
        out = bytearray()
        for piece in self.pieces(capped=take is None):
            (take or out.extend)(piece)
        return self.check(ok, bytes(out))

    def check(self, ok: tuple[int, ...] = (0,), out: bytes = b"") -> Result:
        """The result of a git that has ended; `GitError` for a status outside `ok`."""
        result = Result(self.process.wait(), out, bytes(self.err))
        if result.code not in ok:
            raise failure_of(self.subcommand, result)
        return result

    def pieces(self, *, capped: bool = True) -> Iterator[bytes]:
        """Write the input and yield the output until git ends. `capped`: limit the output size."""
        late = GitTimeout(f"git {self.subcommand} took more than {self.limits.deadline} s")
        size = 0
        with DefaultSelector() as pipes:
            _register(pipes, self.process)
            while pipes.get_map():
                for key, _ in pipes.select(max(0, self.ends - time.monotonic())):
                    if key.fileobj is self.process.stdin:
                        self.rest = write_some(key.fd, self.rest)
                        finished = not self.rest
                    else:
                        piece = os.read(key.fd, _PIECE)
                        finished = not piece
                        if key.fileobj is self.process.stderr:
                            self.err += piece
                        elif piece:
                            size += len(piece)
                            yield piece
                    if finished:
                        pipes.unregister(key.fileobj)
                        cast(IO[bytes], key.fileobj).close()
                if capped and size > (most := self.limits.output):
                    raise GitTooLarge(f"git {self.subcommand} wrote more than {most} bytes")
                if time.monotonic() > self.ends:
                    raise late
                del self.err[_STDERR_MAX:]
        if not _ends_within(self.process, self.ends - time.monotonic()):
            raise late


def _watched(process: GitProcess, subcommand: str, deadline: float) -> GitProcess:
    """The process, which a thread kills at the deadline. Observers get the caller's context."""
    watch = partial(copy_context().run, _watch, process, subcommand, deadline)
    Thread(target=watch, daemon=True).start()
    return process


def _watch(process: GitProcess, subcommand: str, deadline: float) -> None:
    begun = time.monotonic()
    if not _ends_within(process, deadline):
        kill_group(process)
    _observe(subcommand, time.monotonic() - begun)


def failure_of(subcommand: str, result: Result) -> GitError:
    """The error of a git that failed, by its standard error."""
    message = result.err.decode("utf-8", "replace").strip()
    is_out_of_memory = (
        "out of memory" in message.lower() or "cannot allocate memory" in message.lower()
    )
    is_disk_full = (
        "no space left on device" in message.lower() or "disk quota exceeded" in message.lower()
    )
    kind = GitTooLarge if is_out_of_memory else GitDiskFull if is_disk_full else GitError
    return kind(f"git {subcommand} ended with {result.code}: {message[-500:]}")


def _register(pipes: DefaultSelector, process: GitProcess) -> None:
    """Register the process's output, and its input unless that is closed, with the selector."""
    stdin = cast(IO[bytes], process.stdin)
    if not stdin.closed:
        pipes.register(stdin, EVENT_WRITE)
    pipes.register(cast(IO[bytes], process.stdout), EVENT_READ)
    pipes.register(cast(IO[bytes], process.stderr), EVENT_READ)


def write_some(fd: int, rest: memoryview) -> memoryview:
    """Write as much as fits, and return the rest. It is empty if the process stopped reading."""
    try:
        return rest[os.write(fd, rest[:_PIECE]) :]
    except BrokenPipeError:  # the process needs no more input
        return rest[:0]


def _ends_within(process: GitProcess, seconds: float) -> bool:
    """Wait for the process to end, but do not reap it, so that its group id is not reused."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        waiting = poll()
        waiting.register(handle, POLLIN)
        return bool(waiting.poll(max(0, seconds) * 1000))
    finally:
        os.close(handle)
