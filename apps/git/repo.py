"""One bare repository on disk. It checks every name before git gets it; `ValueError` if invalid.

git gets only full object names and valid ref names. Text of a user, taken as a revision, could be
an option (`--output=x` writes a file) or a search through all of history (`:/text`).
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from fcntl import LOCK_EX, LOCK_NB
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar
from uuid import uuid4

from apps.git.batch import Batch, ask
from apps.git.graph import replace_graph, write_graph
from apps.git.protocol import ZERO, Service
from apps.git.refs import read_refs, valid_ref_name
from apps.git.run import (
    GitError,
    GitProcess,
    GitTooLarge,
    Result,
    Started,
    StartedGit,
    read_git,
    run_git,
    spawn_service,
    start_git,
)
from apps.git.store import (
    FOLDERS,
    LEFTOVER_SECONDS,
    remove_leftovers,
    remove_quarantines,
    tidy_lock,
)

T = TypeVar("T")
EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
DISTANCE: Final = ("rev-list", "--left-right", "--count", "--stdin")

_SHA: Final = re.compile(r"[0-9a-f]{40}\Z")
_DRY: Final = "tmp_objdir-dry-"
_MOST_AUTHORS: Final = 1000
MOST_PUSHED: Final = 2 * 1024**3
"""Most bytes of the pack of one push. The same as `maxInputSize` below."""
_CONFIG: Final = """\
[core]
	repositoryFormatVersion = 0
	bare = true
	fileMode = true
	logAllRefUpdates = false
	bigFileThreshold = 32m
	filesRefLockTimeout = 2000
[pack]
	threads = 2
	windowMemory = 64m
	deltaCacheSize = 64m
[gc]
	auto = 0
	autoDetach = false
[transfer]
	hideRefs = refs
	hideRefs = !refs/heads
	hideRefs = !refs/tags
[uploadpack]
	allowFilter = true
	hideRefs = !refs/pull
[receive]
	fsckObjects = true
	maxInputSize = 2g
	autogc = false
	advertisePushOptions = false
[receive "fsck"]
	badTimezone = ignore
	missingSpaceBeforeDate = ignore
	zeroPaddedFilemode = ignore
"""
_IGNORED: Final = ("fsck.badTimezone", "fsck.missingSpaceBeforeDate", "fsck.zeroPaddedFilemode")
"""As in `receive.fsck` above: old tools wrote such objects."""
NAMESPACES: Final = ("refs/heads", "refs/tags", "refs/pull", "refs/versions", "refs/approved")
"""The refs of a repository. Clients do not see the last two."""


@dataclass(frozen=True, slots=True)
class Person:
    """The name and email address of an author or committer."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class DiffStat:
    """The size of a pull's diff. If it is too large to count, the three numbers are 0."""

    commit_count: int
    additions: int = 0
    deletions: int = 0
    changed_files: int = 0
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class Distance:
    """The number of commits that moving a ref loses and gains. A fast-forward loses none."""

    lost: int
    gained: int


def is_sha(text: str) -> bool:
    """Whether the text is a full object name in lower case."""
    return _SHA.match(text) is not None


def full_sha(text: str) -> str:
    """The text, if it is a full object name; else `ValueError`."""
    check_shas(text)
    return text


def check_shas(*texts: str) -> None:
    """`ValueError` unless all texts are full object names."""
    for text in texts:
        if not is_sha(text):
            raise ValueError(f"not a full object name: {text!r}")


def pull_ref(number: int) -> str:
    """The ref of a pull's head. It keeps the head when the branch is deleted."""
    return f"refs/pull/{number}/head"


def approved_ref(number: int, sha: str) -> str:
    """The ref of a commit that was approved as the head of a pull. Hidden from clients."""
    return f"refs/approved/{number}/{sha}"


def version_ref(number: int, version: int) -> str:
    """The ref of the head of a pull's version. Hidden from clients, unlike `refs/pull/`: git hides
    refs by prefix.
    """
    return f"refs/versions/{number}/{version}"


@dataclass(frozen=True, slots=True)
class GitRepo:
    """A bare repository.

    `objects` is the folder for new objects, if not its own. `others` is another repository whose
    objects are readable too. `ends`: see `within`.
    """

    path: Path
    objects: Path | None = None
    others: Path | None = None
    ends: float = inf

    def git(
        self,
        subcommand: str,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        config: Mapping[str, str] | None = None,
        take: Callable[[bytes], object] | None = None,
    ) -> Result:
        """Run git in this repository; see `run_git`. Check text of users before you pass it."""
        return run_git(
            self.path,
            subcommand,
            *args,
            stdin=stdin,
            ok=ok,
            env=self._environment(),
            config=config,
            ends=self.ends,
            take=take,
        )

    def read(self, command: str, *args: str, stdin: bytes = b"") -> Generator[bytes, None, None]:
        """Run git in this repository and yield its output in pieces; see `run.read_git`."""
        env, ends = self._environment(), self.ends
        return read_git(self.path, command, *args, stdin=stdin, env=env, ends=ends)

    def start(self, command: str, *args: str, stdin: bytes | None = b"") -> StartedGit:
        """Start git in this repository, next to other processes; see `run.start_git`."""
        env, ends = self._environment(), self.ends
        return start_git(self.path, command, *args, stdin=stdin, env=env, ends=ends)

    def ask(self, question: Callable[[Batch], T]) -> T:
        """Ask a git that stays about small objects; see `batch.ask`."""
        return ask(self.path, question, env=self._environment(), ends=self.ends)

    def _environment(self) -> dict[str, str]:
        env = {"GIT_OBJECT_DIRECTORY": str(self.objects)} if self.objects else {}
        if self.others:  # quoted, because an unquoted colon ends a path
            store = json.dumps(str(self.others.resolve() / "objects"), ensure_ascii=False)
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = store
        return env

    def within(self, seconds: float) -> "GitRepo":
        """The same repository, with a deadline in `seconds` for all git processes together."""
        return replace(self, ends=min(self.ends, time.monotonic() + seconds))

    # The repository itself

    def exists(self) -> bool:
        return (self.path / "HEAD").is_file()

    def create(self, default_branch: str = "main") -> None:
        """Create the repository, completely or not at all. `FileExistsError` if it exists.

        git needs only the folders, a HEAD and a configuration (gitrepository-layout(5)).
        """
        head = _branch_ref(default_branch)
        if self.path.exists():
            raise FileExistsError(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.unfinished(uuid4().hex)
        try:
            for folder in FOLDERS:
                (unfinished.path / folder).mkdir(parents=True)
            (unfinished.path / "HEAD").write_text(f"ref: {head}\n")
            unfinished._write_config()
            unfinished.path.rename(self.path)
        except BaseException:
            shutil.rmtree(unfinished.path, ignore_errors=True)
            raise

    def unfinished(self, mark: str) -> "GitRepo":
        """The folder in which the repository is made before it is renamed. `mark` is unique per
        attempt.
        """
        return GitRepo(self.path.with_name(f"{self.path.name}.tmp-{mark}"))

    def _write_config(self) -> None:
        (self.path / "config").write_text(_CONFIG)

    @contextmanager
    def dry(self) -> Iterator["GitRepo"]:
        """The same repository, without the objects written in this block. For reads that merge.

        The temporary folder is named like git's own, so that `remove_leftovers` removes it if the
        process dies.
        """
        with TemporaryDirectory(prefix=_DRY, dir=self.path.resolve() / "objects") as folder:
            info = Path(folder) / "info"
            info.mkdir()
            (info / "alternates").write_text(f"{self.path.resolve() / 'objects'}\n")
            yield replace(self, objects=Path(folder))

    def upkeep(self) -> None:
        """Pack refs and objects. Only for the worker: it takes minutes on a large repository."""
        with tidy_lock(self.path, LOCK_EX) as inherited:  # waits while it is copied
            self.remove_leftovers()
            self.git("pack-refs", "--all")
            self._gc(inherited, "--auto")
            write_graph(self.path)

    def _gc(self, inherited: Sequence[int], option: str) -> None:
        # By default gc also rewrites the whole commit-graph each time.
        config = {"gc.auto": "6700", "gc.writeCommitGraph": "false"}
        run_git(self.path, "gc", option, "--quiet", config=config, inherited=inherited)

    def remove_leftovers(self, age: float = LEFTOVER_SECONDS) -> int:
        """Remove files of killed git processes; see `leftovers.remove_leftovers`."""
        return remove_leftovers(self.path, age)

    def remove_quarantines(self, within: float = 0) -> int:
        """Remove folders of killed pushes; see `quarantines.remove_quarantines`."""
        return remove_quarantines(self.path, within)

    def mend_config(self) -> bool:
        """Rewrite the configuration if it differs from `_CONFIG`; return whether it did."""
        if (self.path / "config").read_text() == _CONFIG:
            return False
        self._write_config()
        return True

    def serve(
        self,
        service: Service,
        *,
        advertise: bool = False,
        stateless: bool = True,
        protocol: str = "",
        most: int | None = None,
    ) -> GitProcess:
        """Start one exchange of a fetch or a push, or all of them; see `run.spawn_service`.

        `most`: bytes of a push's pack, if it may have fewer than `MOST_PUSHED`.
        """
        config = {} if most is None else {"receive.maxInputSize": str(most)}
        return spawn_service(
            self.path,
            service,
            advertise=advertise,
            stateless=stateless,
            protocol=protocol,
            config=config,
        )

    # Refs

    def refs(self, *, pulls: bool = False) -> dict[str, str]:
        """Full name -> object of all branches and tags; with `pulls`, of the heads of pulls too."""
        return self._refs("refs/heads", "refs/tags", *(["refs/pull"] if pulls else []))

    def kept_refs(self) -> dict[str, str]:
        """The same of the refs that keep the commits of pulls."""
        return self._refs(*NAMESPACES[2:])

    def some_refs(self, names: Collection[str]) -> dict[str, str]:
        """Full name -> object of the refs among `names` that exist. It may contain other refs.

        Reads git's files. Only if that fails, git is started.
        """
        checked = [_ref(name) for name in names]
        with suppress(OSError, ValueError):
            refs = read_refs(self.path, checked)
            if self.exists():  # if the disk is gone, the refs are not deleted
                return refs
        return self._refs(*checked) if checked else {}

    def ref(self, name: str) -> str | None:
        """The object of one ref, or None."""
        return self.some_refs([name]).get(name)

    def _refs(self, *under: str) -> dict[str, str]:
        out = self.git("for-each-ref", "--format=%(objectname) %(refname)", *under).out
        lines = out.decode("utf-8", "surrogateescape").split("\n")
        pairs = (line.split(" ", 1) for line in lines if line)
        return {name: sha for sha, name in pairs if valid_ref_name(name)}

    def head_branch(self) -> str:
        """The default branch. It need not exist."""
        out = self.git("symbolic-ref", "HEAD").out.decode("utf-8", "surrogateescape")
        return out.removesuffix("\n").removeprefix("refs/heads/")

    def set_head_branch(self, name: str) -> None:
        self.git("symbolic-ref", "HEAD", _branch_ref(name))

    def start_update(self) -> StartedGit:
        """Start the git of an `update_refs` before the locks under which it moves the refs."""
        return self.start("update-ref", "--stdin", "-z", stdin=None)

    def update_ref(self, ref: str, new: str, old: str, git: Started | None = None) -> bool:
        """`update_refs` for one ref."""
        return self.update_refs([(ref, new, old)], git)

    def update_refs(
        self, moves: Sequence[tuple[str, str, str]], git: Started | None = None
    ) -> bool:
        """Move all refs, given as `(ref, new, old)`, or none. `git`: see `start_update`.

        Returns False if another process moved one of them first. `ZERO` as `old`: the ref must not
        exist. `ZERO` as `new`: delete the ref. `GitError` for other failures, such as `a/b` if
        there is an `a`.
        """
        # git takes two zeros as "delete the ref, whatever its object".
        if any(new == old == ZERO for _, new, old in moves):
            raise ValueError("old and new are both ZERO")
        lines = [
            f"update {_ref(ref)}\0{full_sha(new)}\0{full_sha(old)}\0" for ref, new, old in moves
        ]
        try:
            with nullcontext(git) if git else self.start_update() as process:
                process.feed("".join(lines).encode()).result()
        except GitError:
            present = self.some_refs([ref for ref, _, _ in moves])
            if all(present.get(ref, ZERO) == old for ref, _, old in moves):
                raise
            return False
        return True

    # Commits

    def has_commit(self, sha: str) -> bool:
        name = full_sha(sha).encode()
        [header] = self.ask(lambda git: git.info(name))
        return header is not None and header.kind == "commit"

    def is_ancestor(self, a: str, b: str) -> bool:
        """Whether `b` contains `a`. A commit contains itself."""
        return not self.git("merge-base", "--is-ancestor", full_sha(a), full_sha(b), ok=(0, 1)).code

    def merge_base(self, a: str, b: str) -> str | None:
        """The best common ancestor; None for unrelated histories."""
        return self.git("merge-base", full_sha(a), full_sha(b), ok=(0, 1)).word or None

    def distance(self, old: str, new: str) -> Distance:
        """The number of commits that only `old` has, and the number that only `new` has."""
        both = f"{full_sha(old)}...{full_sha(new)}\n".encode()
        lost, gained = self.git(*DISTANCE, stdin=both).word.split()
        return Distance(int(lost), int(gained))

    def commit_authors(self, base: str, head: str) -> tuple[Person, ...]:
        """The authors of the newest 1,000 commits of `base..head`, oldest first, by email."""
        selection = ("--reverse", "--topo-order", "--no-merges", f"--max-count={_MOST_AUTHORS}")
        fields = ("--no-commit-header", "--format=%an%x00%ae")
        out = self.git("rev-list", *selection, *fields, f"{full_sha(base)}..{full_sha(head)}").out
        lines = out.decode("utf-8", "replace").split("\n")
        pairs = (line.split("\0") for line in lines if line)
        people: dict[str, Person] = {}
        for name, email in pairs:
            people.setdefault(email.lower(), Person(name, email))
        return tuple(people.values())

    def diff_stat(self, base: str, head: str) -> DiffStat:
        """The size of the diff from the merge base to `head`. A rename counts as one file."""
        distance = self.distance(base, head)
        start = self.merge_base(base, head) or EMPTY_TREE if distance.lost else base
        commits = distance.gained
        try:
            summary = self.git("diff-tree", "--shortstat", "-M", "-l200", start, head).word
        except GitTooLarge:
            return DiffStat(commits, too_large=True)
        count = {word: int(number) for number, word in re.findall(r"(\d+) (file|ins|del)", summary)}
        return DiffStat(commits, count.get("ins", 0), count.get("del", 0), count.get("file", 0))

    # Removing commits for good

    def refs_with(self, sha: str) -> dict[str, str]:
        """Full name -> object of all refs that contain a commit, hidden refs included."""
        form = "--format=%(objectname) %(refname)"
        out = self.git("for-each-ref", form, f"--contains={full_sha(sha)}").out
        lines = out.decode("utf-8", "surrogateescape").splitlines()
        pairs = (line.split(" ", 1) for line in lines)
        return {name: at for at, name in pairs if valid_ref_name(name)}

    def missing(self, shas: Collection[str]) -> set[str]:
        """The objects among `shas` that the repository does not have."""
        if not shas:
            return set()
        stdin = "".join(f"{full_sha(sha)}\n" for sha in shas).encode()
        lines = self.git("cat-file", "--batch-check", stdin=stdin).out.decode().splitlines()
        return {line.removesuffix(" missing") for line in lines if line.endswith(" missing")}

    def prune(self, sha: str) -> None:
        """Remove all objects that no ref reaches. `GitError` if the object `sha` is still there, or
        while the repository is tidied or copied.

        Takes minutes on a large repository. Nobody may write to it meanwhile: git would also remove
        new objects that no ref reaches yet.
        """
        try:
            with tidy_lock(self.path, LOCK_EX | LOCK_NB) as inherited:
                self._gc(inherited, "--prune=now")
                replace_graph(self.path)
        except BlockingIOError:
            raise GitError("it is being tidied or backed up: try again later") from None
        if not self.missing([sha]):
            raise GitError(f"{sha} is still there")

    # From another repository

    def fetch_objects(self, source: "GitRepo", sha: str) -> None:
        """Copy one commit and its history from a repository on the same disk.

        It creates no ref. Without one, `upkeep` removes the objects after two weeks.
        """
        self._fetch(source.path, full_sha(sha))

    def create_as_copy(self, source: "GitRepo") -> None:
        """Create the repository with the branches, tags, HEAD and objects of `source`.

        Takes minutes for a large source. The two share no objects: over protocol v2, readers of the
        copy could otherwise fetch objects that the source no longer shows.
        """
        self.create(source.head_branch())
        self._fetch(source.path, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")

    def write_bundle(self, refs: Mapping[str, str], take: Callable[[bytes], object]) -> None:
        """Pass a bundle with these refs, full name -> object, to `take`, in pieces. The refs of the
        repository may be others. Hold `tidy_lock`, so that the objects stay. `GitError`, also
        without refs, or if an object is missing.
        """
        with TemporaryDirectory(prefix=_DRY, dir=self.path.resolve() / "objects") as folder:
            other = GitRepo(Path(folder) / "refs.git")
            other.create()
            objects = f"{self.path.resolve() / 'objects'}\n"
            (other.path / "objects" / "info" / "alternates").write_text(objects)
            lines = (f"{full_sha(sha)} {_ref(name)}\n" for name, sha in refs.items())
            (other.path / "packed-refs").write_text("".join(lines))
            globs = [f"--glob={namespace}/*" for namespace in NAMESPACES]
            other.git("bundle", "create", "--quiet", "-", *globs, take=take)

    def create_from_bundle(self, write: Callable[[Path], object], default_branch: str) -> None:
        """Create the repository with the refs and objects of a bundle, checked like those of a
        push. `write` writes the bundle to a path. Refs in other namespaces than `NAMESPACES` are
        left out. `GitError`, also for refs with invalid names.
        """
        self.create(default_branch)
        bundle = self.path / "import.bundle"
        write(bundle)
        self._fetch(bundle, *(f"+{namespace}/*:{namespace}/*" for namespace in NAMESPACES))
        bundle.unlink()
        names = self.git("for-each-ref", "--format=%(refname)").out
        if not names:  # git takes a header without refs for a bundle
            raise GitError("the bundle has no refs")
        for name in names.decode("utf-8", "surrogateescape").splitlines():
            if not valid_ref_name(name):
                raise GitError(f"invalid name of a ref: {name!r}")
        ignored = dict.fromkeys(_IGNORED, "ignore")
        self.git("fsck", "--strict", "--no-dangling", "--no-progress", config=ignored)

    def _fetch(self, source: Path, *refspecs: str) -> None:
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        plain = ("--no-recurse-submodules", "--no-show-forced-updates")
        # A pack is complete or absent. With single objects, a killed git could leave a commit
        # without its files, and git takes a commit that exists as complete.
        whole = {"fetch.unpackLimit": "1"}
        self.git("fetch", *quiet, *plain, str(source.resolve()), *refspecs, config=whole)


def _ref(text: str) -> str:
    if not valid_ref_name(text):
        raise ValueError(f"not a valid ref name: {text!r}")
    return text


def _branch_ref(name: str) -> str:
    return _ref(f"refs/heads/{name}")
