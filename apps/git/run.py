"""Starts git processes; no other module does. `LIMITS` lists the allowed subcommands.

Each has a deadline, after which its whole process group is ended, and limits of output, of memory
and of processor time: 48 KB of hostile objects can otherwise take all that the machine has. Needs
Linux (`RLIMIT_DATA`, pidfd).
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from selectors import DefaultSelector
from subprocess import DEVNULL, PIPE, Popen
from threading import Lock, Thread
from typing import IO, Final, TypeAlias, cast

from apps.git.pipes import PIECE, ends_within, register, write
from apps.git.protocol import Service
from apps.git.quarantines import push_lock

_MIB: Final = 1024 * 1024
_GIB: Final = 1024 * _MIB
_KEPT_OF_STDERR: Final = 65536
_GRACE: Final = 1.0


GitProcess: TypeAlias = Popen[bytes]
StartedGit: TypeAlias = "AbstractContextManager[Started]"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one git process may use: seconds, bytes of output, bytes of memory (`RLIMIT_DATA`),
    seconds of processor time (`RLIMIT_CPU`), which two threads use up twice as fast.
    """

    deadline: float = 10
    output: int = 16 * _MIB
    memory: int = 256 * _MIB
    processor: int = 7200


LIMITS: Final[dict[str, Limits]] = {
    "archive": Limits(deadline=60, processor=60),
    "blame": Limits(output=8 * _MIB, processor=10),
    "cat-file": Limits(output=32 * _MIB),
    "commit-graph": Limits(deadline=60, memory=_GIB, processor=60),
    "diff-tree": Limits(output=32 * _MIB),
    "fast-import": Limits(deadline=60),
    "fetch": Limits(deadline=600, memory=_GIB),
    "format-patch": Limits(output=32 * _MIB, processor=10),
    "for-each-ref": Limits(output=64 * _MIB),
    "gc": Limits(deadline=3600, memory=2 * _GIB),
    "hash-object": Limits(),
    "log": Limits(deadline=5, output=8 * _MIB, processor=5),
    "ls-tree": Limits(deadline=2, output=32 * _MIB, processor=2),
    "merge-base": Limits(),
    "merge-tree": Limits(deadline=20, memory=512 * _MIB),
    "pack-refs": Limits(deadline=60),
    "rev-list": Limits(),
    "symbolic-ref": Limits(deadline=5),
    "update-ref": Limits(deadline=5),  # runs under the lock of a row
}
# A stream is as long as what it carries, so its output has no cap.
SERVICE_LIMITS: Final = Limits(deadline=3600, memory=_GIB)
# Anybody may ask for much: a clone of a kernel takes a few minutes of the processor's time.
FETCH_LIMITS: Final = replace(SERVICE_LIMITS, processor=600)
BLOB_LIMITS: Final = Limits(deadline=3600, processor=60)

# `preexec_fn` is slow and unsafe among threads, and `prlimit` from here comes milliseconds too
# late on a busy server: git has its memory by then. The shell sees no text but its own.
_SHELL: Final = ("/bin/sh", "-c", 'ulimit -d "$0" && ulimit -t "$1" && shift && exec "$@"')
# With these options git reads what it is to do, before it does anything else: it waits until the
# limits are set from here, which saves the shell. `--batch-check=…` counts as `--batch-check`.
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
# A shared file system may show the repositories as somebody else's.
# By itself git lets a power cut take refs and single objects that it has reported as written.
_CONFIG: Final = {
    "core.fsync": "committed,loose-object,reference",
    "core.hooksPath": "/dev/null",
    "safe.directory": "*",
}


class GitError(Exception):
    """git failed; the text holds the end of what it said and is for logs, not for clients."""


class GitTimeout(GitError):
    """git was not ready by its deadline; it may be on a machine that is less busy."""


class GitTooLarge(GitError):
    """git met its limit of memory or of output, and always will: trying again is of no use."""


class GitDiskFull(GitError):
    """git could not write: the disk has no space left, or the server's quota is used up."""


@dataclass(frozen=True, slots=True)
class Result:
    """How git ended and what it wrote; of standard error the first 64 KiB."""

    code: int
    out: bytes
    err: bytes

    @property
    def word(self) -> str:
        """The output as the one word that it is: an object name, a number."""
        return self.out.decode("utf-8", "replace").strip()


spawned = 0
"""How many git processes were started here; tests read it to see that something ran none."""
_counting = Lock()


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
) -> Result:
    """Run one git to its end. `GitError` for a status outside `ok`, or a subclass of it.

    The caller has checked every argument: no text of a user may reach git unchecked. `ends`: by
    `time.monotonic`, when git is to be ready even if its own deadline is later. `take` is given
    each piece of the output as it comes, which then is not kept and has no limit.
    """
    started = start_git(git_dir, subcommand, *args, stdin=stdin, env=env, config=config, ends=ends)
    with started as one:
        return one.result(ok, take)


def read_git(
    git_dir: Path,
    subcommand: str,
    *args: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    ends: float = inf,
) -> Generator[bytes, None, None]:
    """What one git writes, in pieces, for output that nobody should hold as a whole.

    Limits and errors are those of `run_git`; the errors come where the output ends. git ends with
    the iterator.
    """
    with start_git(git_dir, subcommand, *args, stdin=stdin, env=env, ends=ends) as one:
        yield from one.pieces()
        one.check()


@contextmanager
def start_git(
    git_dir: Path,
    subcommand: str,
    *args: str,
    stdin: bytes | None = b"",
    env: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
    ends: float = inf,
) -> Iterator["Started"]:
    """Start one git, so that others may run while it does; it ends with the block at the latest.
    Otherwise as `run_git`. Its time begins here. `stdin` may be given later, see `Started.feed`.
    """
    with _spawn(git_dir, subcommand, args, LIMITS[subcommand], PIPE, env, config) as process:
        try:
            yield Started(process, subcommand, stdin, ends)
        finally:
            kill_group(process)


def spawn_service(
    git_dir: Path,
    service: Service,
    *,
    advertise: bool = False,
    protocol: str = "",
    config: Mapping[str, str] | None = None,
) -> GitProcess:
    """Start upload-pack or receive-pack for one stateless exchange over stdin and stdout.

    `protocol` is the request's `Git-Protocol`. Use the process in a `with`, and call
    `kill_group` if the client goes away; after an hour the group is ended anyway.
    """
    args = ["--stateless-rpc", *(["--advertise-refs"] if advertise else []), str(git_dir)]
    env = {"GIT_PROTOCOL": "version=2"} if "version=2" in protocol.split(":") else {}
    if service is Service.UPLOAD_PACK:
        process = _spawn(git_dir, service, args, FETCH_LIMITS, DEVNULL, env)
        return _watched(process, FETCH_LIMITS.deadline)
    with ExitStack() as stack:
        inherited = []
        with suppress(OSError):  # a file system without locks
            inherited.append(stack.enter_context(push_lock(git_dir)))
        process = _spawn(
            git_dir, service, args, SERVICE_LIMITS, DEVNULL, env, config, inherited=inherited
        )
    return _watched(process, SERVICE_LIMITS.deadline)


def spawn_archive(git_dir: Path, *args: str) -> GitProcess:
    """Start a git that writes an archive; to be used and ended as `spawn_service` says.

    It sees the objects of the repository and no ref: a file of the archive may ask for the names of
    its commit, some of which nobody is shown, and which would change with each push.
    """
    limits, env = LIMITS["archive"], {"GIT_OBJECT_DIRECTORY": str(git_dir.resolve() / "objects")}
    # A file of the archive may ask for the signature of its commit, which is read by these.
    config = {f"gpg.{kind}program": "false" for kind in ("", "ssh.", "x509.")}
    config |= {"core.bare": "true", "core.bigFileThreshold": "32m"}  # as the repository's own says
    process = _spawn(_without_refs(git_dir), "archive", args, limits, DEVNULL, env, config)
    return _watched(process, limits.deadline)


def _without_refs(git_dir: Path) -> Path:
    """A folder that git takes for a repository without any ref, made where it is not there yet."""
    empty = git_dir / "without-refs"
    try:
        for folder in (empty, empty / "refs"):
            folder.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (empty / "HEAD").symlink_to("refs/heads/none")  # at once, or not at all
    except OSError as error:
        raise GitError(f"git archive could not start: {error.strerror}") from error
    return empty


def spawn_blob(git_dir: Path, sha: str) -> GitProcess:
    """Start a git that writes one blob; to be used and ended as `spawn_service` says."""
    process = _spawn(git_dir, "cat-file", ["blob", sha], BLOB_LIMITS, DEVNULL, None)
    return _watched(process, BLOB_LIMITS.deadline)


def ends_well(process: GitProcess, seconds: float) -> bool:
    """Whether it ends by itself within so many seconds, and has not failed."""
    return ends_within(process, seconds) and process.wait() == 0


def kill_group(process: GitProcess) -> None:
    """End the process and all it started; harmless when it has ended. Takes a second at most.

    TERM comes first, because git then removes its lock files: after a KILL a branch could stay
    locked for ever. Half-written packs stay for `GitRepo.upkeep`, the folder of a push for
    `GitRepo.remove_quarantines`.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        ends_within(process, _GRACE)
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
    named = {arg.partition("=")[0] for arg in args}
    waits = not _WAITS_FOR_INPUT.get(subcommand, set()).isdisjoint(named)
    bound = _prlimit if waits else None
    if bound is None:
        command = [*_SHELL, str(limits.memory // 1024), str(limits.processor), *command]
    try:
        process = Popen(
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            env={**_ENVIRONMENT, **(env or {})},
            start_new_session=True,
            pass_fds=inherited,
        )
    except OSError as error:
        raise GitError(f"git {subcommand} could not start: {error.strerror}") from error
    with _counting:
        spawned += 1
    if bound is not None:
        _bound(process, limits, bound)
    return process


def _bound(process: GitProcess, limits: Limits, prlimit: Callable[..., object]) -> None:
    """Set the limits of a git that has not been given its input, nor been waited for."""
    try:
        prlimit(process.pid, resource.RLIMIT_DATA, (limits.memory, limits.memory))
        prlimit(process.pid, resource.RLIMIT_CPU, (limits.processor, limits.processor))
    except (OSError, ValueError) as error:
        with process:  # closes its pipes
            kill_group(process)
        raise GitError(f"git could not be bounded: {error}") from error


class Started:
    """A git that has been started and given as much of its input as fits; it is read once."""

    def __init__(
        self, process: GitProcess, subcommand: str, stdin: bytes | None, ends: float
    ) -> None:
        self.process, self.subcommand, self.limits = process, subcommand, LIMITS[subcommand]
        self.ends = min(ends, time.monotonic() + self.limits.deadline)
        self.err = bytearray()
        self.rest = memoryview(b"")
        if stdin is not None:
            self.feed(stdin)

    def feed(self, stdin: bytes) -> "Started":
        """Give it its input, all of it, where that was not known before."""
        pipe = cast(IO[bytes], self.process.stdin)
        # Else a long write and git's own could wait for each other.
        os.set_blocking(pipe.fileno(), False)
        self.rest = write(pipe.fileno(), memoryview(stdin))
        if not self.rest:
            pipe.close()
        return self

    def result(
        self, ok: tuple[int, ...] = (0,), take: Callable[[bytes], object] | None = None
    ) -> Result:
        """Wait for its end; `ok`, `take` and errors as of `run_git`."""
        out = bytearray()
        for piece in self.pieces(kept=take is None):
            (take or out.extend)(piece)
        return self.check(ok, bytes(out))

    def check(self, ok: tuple[int, ...] = (0,), out: bytes = b"") -> Result:
        """How it has ended; `GitError` for a status outside `ok`."""
        result = Result(self.process.wait(), out, bytes(self.err))
        if result.code not in ok:
            raise _failure(self.subcommand, result)
        return result

    def pieces(self, *, kept: bool = True) -> Iterator[bytes]:
        """Feed and drain it until it ends, within its deadline and, if `kept`, its cap."""
        late = GitTimeout(f"git {self.subcommand} took more than {self.limits.deadline} s")
        size = 0
        with DefaultSelector() as pipes:
            register(pipes, self.process)
            while pipes.get_map():
                for key, _ in pipes.select(max(0, self.ends - time.monotonic())):
                    if key.fileobj is self.process.stdin:
                        self.rest = write(key.fd, self.rest)
                        finished = not self.rest
                    else:
                        piece = os.read(key.fd, PIECE)
                        finished = not piece
                        if key.fileobj is self.process.stderr:
                            self.err += piece
                        elif piece:
                            size += len(piece)
                            yield piece
                    if finished:
                        pipes.unregister(key.fileobj)
                        cast(IO[bytes], key.fileobj).close()
                if kept and size > (most := self.limits.output):
                    raise GitTooLarge(f"git {self.subcommand} wrote more than {most} bytes")
                if time.monotonic() > self.ends:
                    raise late
                del self.err[_KEPT_OF_STDERR:]
        if not ends_within(self.process, self.ends - time.monotonic()):
            raise late


def _watched(process: GitProcess, deadline: float) -> GitProcess:
    Thread(target=_watch, args=(process, deadline), daemon=True).start()
    return process


def _watch(process: GitProcess, deadline: float) -> None:
    if not ends_within(process, deadline):
        kill_group(process)


def _failure(subcommand: str, result: Result) -> GitError:
    said = result.err.decode("utf-8", "replace").strip()
    short = "out of memory" in said.lower() or "cannot allocate memory" in said.lower()
    full = "no space left on device" in said.lower() or "disk quota exceeded" in said.lower()
    kind = GitTooLarge if short else GitDiskFull if full else GitError
    return kind(f"git {subcommand} ended with {result.code}: {said[-500:]}")
