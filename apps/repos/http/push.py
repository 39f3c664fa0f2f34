"""One push from its command list to its report.

Which refs may move is decided before git starts, and git is given no others; the journal is
written before git may move them; rows and events are written before the client gets the report.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from threading import Thread
from types import TracebackType
from typing import IO, Self, cast
from uuid import UUID

from django.db import transaction

from apps.core.access import Level
from apps.core.body_limits import body_memory
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import BadRequest
from apps.core.locks import give_back_connection, lock
from apps.core.slots import Hold
from apps.git.history import distances
from apps.git.new_names import new_name_problem
from apps.git.protocol import (
    Command,
    ProtocolError,
    PushParser,
    PushRequest,
    Service,
    report,
    with_refusals,
)
from apps.git.repo import valid_ref_name
from apps.git.run import GitProcess, ends_well, kill_group
from apps.repos import quota
from apps.repos.access import RepoAccess
from apps.repos.http.streams import LAST_SECONDS, PIECE, drop, end
from apps.repos.models import BRANCHES, TAGS, PushJournal, Repo
from apps.repos.models.protection import glob
from apps.repos.models.ref import short_name, twin
from apps.repos.pushes import MOST_NAMED, journal_of, open_journal, settle, stored_heads
from apps.repos.rules import ZERO, RefMove, longest_chain, names_branches

MOST_REFS = 20_000
"""Refs that one push may move: imports have thousands of tags."""
MOST_LOGGED = 20
"""Refused refs that one line of the log names."""
REPORT_LIMIT = 16 * 1024 * 1024
KILLED_SECONDS = 2.0
"""How long the processes that a killed git had started may take to end."""
LIST_COST = 8
"""Bytes of memory for each byte of a command list, with all that is made of it: it was measured."""
TOO_MANY = f"one push moves {MOST_REFS:,} refs at most: push this one once more"
OUTDATED = "fetch first: this is not what was pushed last"
STALE = "this is not what is there now"
SECONDS = 5
"""How long git may take under the repository's lock."""
logger = logging.getLogger(__name__)


def receive(*, by: RepoAccess, body: Iterator[bytes]) -> bytes:
    """Carry out a push; returns the report that `git push` prints.

    `body` yields the request. Errors: 400 for what is no push, 503 while the command lists of too
    many pushes are kept, those of `accept_refs`, and what the server raises when the client goes
    away. Refs that git has moved by then have their rows.
    """
    with body_memory.hold(f"person:{by.principal.person_id}") as hold:
        request, rest = read_commands(counted(body, hold))
        return carry_out(by, request, rest, body)


def refuse_all(body: Iterator[bytes], reason: str, caller: str) -> bytes:
    """Refuse every ref of a push for one reason; returns the report that `git push` prints.

    Errors: 400 for what is no push, 503 as `receive`.
    """
    with body_memory.hold(caller) as hold:
        request, _ = read_commands(counted(body, hold))
        drop(body)
    refused = [(command.ref, reason) for command in request.commands]
    return report(refused, sideband=request.sideband) if refused and request.wants_report else b""


def counted(body: Iterator[bytes], hold: Hold) -> Iterator[bytes]:
    """Yield `body`, with memory for what is made of each piece reserved before; 503 when there is
    none.
    """
    size = 0
    for piece in body:
        size += len(piece)
        hold.grow_to(size * LIST_COST)
        yield piece


def carry_out(by: RepoAccess, request: PushRequest, rest: bytes, body: Iterator[bytes]) -> bytes:
    """Decide about the refs, give git those that may move, and write down what it has done."""
    actor, repo = by.user, by.repo
    if not request.commands:
        # Before it sends a large pack, git asks with an empty list whether it may.
        return b""
    left, limit = quota.bytes_left(repo)
    too_much = quota.refusals(request, left, limit)
    push, refused = accept_refs(by, request, stale_moves(repo, request) | too_much)
    give_back_connection()
    if refused:
        log_refused(by, refused)
    if push is None:
        drop(body)
        return report(refused.items(), sideband=request.sideband) if request.wants_report else b""
    accepted = [c for c in request.commands if c.ref not in refused]
    own = [RefMove(repo, c.ref, c.old, c.new, actor) for c in accepted]
    asked = request.without(refused) if refused else request.raw
    with Feeder(asked + rest, body) as feeder:
        try:
            answer = run(repo, feeder, quota.most_of_push(left))
            quota.add_pushed(repo, feeder.sent)
        finally:
            settle(repo=repo, push=push, own=own)
            give_back_connection()
    if not refused or not request.wants_report:
        return answer
    return with_refusals(answer, refused.items(), sideband=request.sideband)


def log_refused(by: RepoAccess, refused: dict[str, str]) -> None:
    """Log one line about the refused refs; at most `MOST_LOGGED` of them by name."""
    named = [f"{ref[:200]!a} ({refused[ref]})" for ref in [*refused][:MOST_LOGGED]]
    others = f" and {len(refused) - len(named)} more" if len(refused) > len(named) else ""
    logger.info("Refused push to %s by %s: %s%s", by.repo.path, by.user, ", ".join(named), others)


def accept_refs(
    by: RepoAccess, request: PushRequest, stale: dict[str, str]
) -> tuple[UUID | None, dict[str, str]]:
    """Decide which refs may move, and write them to the journal.

    Returns the push's id, None when no ref may move, and the refused refs with the reasons.

    Thousands of refs are compared with the protections before the lock. Under it they are compared
    anew only if the protections have changed since, and not before it has been given back; those
    that remain are compared with the stored refs.
    Errors: 401, 403, 404, 409 `repo_archived`.
    """
    while True:
        protected = patterns(by.repo)
        refused = refusals(request, protected, stale)
        with transaction.atomic():
            now = locked_and_renewed(by)
            if patterns(by.repo) == protected:
                others = [command for command in request.commands if command.ref not in refused]
                late = name_clashes(by.repo, others) | outdated_moves(by.repo, others)
                refused = all_or_none(request, refused | late)
                moves = [(c.ref, c.old, c.new) for c in others if c.ref not in refused]
                push = open_journal(actor=now.user, repo=by.repo, moves=moves) if moves else None
                return push, refused


def locked_and_renewed(by: RepoAccess) -> RepoAccess:
    """Lock the repository, and ask anew whether the caller may push: the request may have come
    slowly.

    Whoever protects a branch takes the same lock: a push that is accepted first is carried out
    (docs/protections.md).
    """
    lock(by.repo)
    now = by.renewed()
    now.require_change(Level.WRITE)
    return now


def patterns(repo: Repo) -> list[str]:
    """What is protected."""
    return list(repo.protections.order_by("id").values_list("branch", flat=True))


def read_commands(body: Iterator[bytes]) -> tuple[PushRequest, bytes]:
    """The command list, and what came of the pack with its last piece."""
    parser = PushParser()
    try:
        for piece in body:
            if parser.feed(piece):
                break
        return parser.request, parser.rest
    except ProtocolError as error:
        raise BadRequest("malformed_request", f"This is no push: {error}.") from None


def stale_moves(repo: Repo, request: PushRequest) -> dict[str, str]:
    """Moves and deletions of something else than what is there now, with the reason against them.

    git compares the old value of a deletion only if it has that object. And a step from where the
    ref never was could make a loop in the journal with another, of moves that never happened.
    """
    moved = [command for command in request.commands if command.old != ZERO]
    present = repo.git.refs() if moved else {}
    wrong = [command for command in moved if present.get(command.ref) != command.old]
    return {command.ref: STALE for command in wrong}


def outdated_moves(repo: Repo, commands: Sequence[Command]) -> dict[str, str]:
    """Moves that begin neither at the stored head nor where the journal leads from there, and those
    that are written down already, with the reason against them. The caller holds the repository's
    lock.

    git and `stale_moves` compare with the disk, and a file system that several nodes share may show
    one of them what was there some time ago. Where the rows are behind the disk and no journal
    says why, a move that begins at a descendant of the stored head is let through: nothing is lost.

    curl sends a push again when a kept-alive connection dies without an answer, and the first one
    may have ended since `stale_moves` looked at the disk. git would refuse the second, but its step
    would stay in the journal if its process dies before.
    """
    stored = stored_heads(repo, [command.ref for command in commands])
    differing = [c for c in commands if stored.get(c.ref, ZERO) != c.old]
    if not differing:
        return {}
    steps = open_steps(repo, [command.ref for command in differing])
    # A step that is not written down yet may have moved the ref away, and this one moves it back.
    resent = {c.ref for c in differing if stored.get(c.ref, ZERO) == c.new and not steps[c.ref]}
    unexplained = [
        (c.ref, stored[c.ref], c.old)
        for c in differing
        if c.ref in stored and longest_chain(stored[c.ref], c.old, steps[c.ref]) is None
    ]
    git, pairs = repo.git.within(SECONDS), [(at, old) for _, at, old in unexplained if old != ZERO]
    told = distances(git, pairs) if pairs else {}
    ahead = {pair for pair, distance in told.items() if distance.lost == 0}
    outdated = {name: OUTDATED for name, at, old in unexplained if (at, old) not in ahead}
    return outdated | dict.fromkeys(resent, STALE)


def open_steps(repo: Repo, names: Sequence[str]) -> dict[str, list[PushJournal]]:
    """The steps of these refs in the journal, by ref."""
    journal, steps = journal_of(repo), defaultdict[str, list[PushJournal]](list)
    for step in journal.filter(full_name__in=names) if len(names) <= MOST_NAMED else journal:
        steps[step.full_name].append(step)
    return steps


def refusals(
    request: PushRequest, protected: Sequence[str], stale: dict[str, str]
) -> dict[str, str]:
    """Which refs may not move, and why. Where the client asked for `atomic`, all or none.

    `protected`: the patterns of the protected branches. What is over `MOST_REFS` is compared with
    none of them.
    """
    commands, globs = request.commands, [glob(pattern) for pattern in protected]
    for_tags = [glob(pattern) for pattern in protected if names_branches(pattern)]
    found = stale | {c.ref: reason for c in commands if (reason := reason_against(c))}
    others = [command for command in commands if command.ref not in found]
    found |= {command.ref: TOO_MANY for command in others[MOST_REFS:]}
    for command in others[:MOST_REFS]:
        name = short_name(command.ref)
        if changes_branch(command) and any(one.fullmatch(name) for one in globs):
            found[command.ref] = "protected branch"
        if sets_tag(command) and any(one.fullmatch(name) for one in for_tags):
            found[command.ref] = "a protected branch has this name, or may have it"
    return all_or_none(request, found)


def all_or_none(request: PushRequest, refused: dict[str, str]) -> dict[str, str]:
    """The refused refs; where one is and the client asked for `atomic`, all others as well."""
    if refused and request.atomic:
        return {**{c.ref: "atomic push failed" for c in request.commands}, **refused}
    return refused


def changes_branch(command: Command) -> bool:
    """Whether it does to a branch what nobody may do to a protected one.

    A protected branch may be created: git checks that there is none.
    """
    return command.ref.startswith(BRANCHES) and not command.creates


def sets_tag(command: Command) -> bool:
    """Whether there is a tag of this name afterwards."""
    return command.ref.startswith(TAGS) and not command.deletes


def name_clashes(repo: Repo, commands: Sequence[Command]) -> dict[str, str]:
    """Tags that are set and branches that are created where the other has that name, with the
    reason against them. The caller holds the repository's lock.

    `git fetch URL main` would bring the tag. If one push creates both, the branch is made. Those
    that were made before this rule can be deleted, and the branch be moved.
    """
    twins = {
        twin(c.ref): c.ref
        for c in commands
        if sets_tag(c) or (c.creates and c.ref.startswith(BRANCHES))
    }
    if not twins:
        return {}
    steps = open_steps(repo, [*twins])
    announced = {name for name in steps if any(step.new != ZERO for step in steps[name])}
    branches = {ref for ref in twins.values() if ref.startswith(BRANCHES)}
    taken = announced.union(stored_heads(repo, [*twins]), branches)
    return {
        ref: f"a {'branch' if name.startswith(BRANCHES) else 'tag'} has this name"
        for name, ref in twins.items()
        if name in taken
    }


def reason_against(command: Command) -> str | None:
    """Why nobody may move this ref, whatever is protected; None when one may.

    What is "not there" before and after is no creation: git would delete whatever there is.
    """
    if not command.ref.startswith((BRANCHES, TAGS)):
        return "only branches and tags can be pushed"
    # One that was made before this rule can be deleted.
    if not command.deletes and has_controls(command.ref):
        return f"names have no {CONTROLS}"
    if command.creates and (problem := new_name_problem(short_name(command.ref))):
        return problem
    if not valid_ref_name(command.ref):
        return "this name is not allowed"
    return "old and new are the same" if command.old == command.new else None


class Feeder:
    """Writes a push to git while it comes, in a thread: git may have ended before the body does,
    and what it has done is written down at once.

    What git leaves is dropped, so that the client gets the report. `with` ends when the thread has
    ended, and raises what the body has raised.
    """

    def __init__(self, beginning: bytes, body: Iterator[bytes]) -> None:
        self.beginning = beginning
        self.body = body
        self.sent = 0
        self.error: Exception | None = None
        self.thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.thread is not None:
            self.thread.join()
        if self.error is not None and error is None:
            raise self.error

    def start(self, process: GitProcess) -> None:
        self.thread = Thread(target=self._run, args=[process], daemon=True)
        self.thread.start()

    def _run(self, process: GitProcess) -> None:
        try:
            self._feed(cast("IO[bytes]", process.stdin))
        except Exception as error:
            self.error = error
            end_gently(process)

    def _feed(self, stdin: IO[bytes]) -> None:
        for piece in chain([self.beginning], self.body):
            try:
                stdin.write(piece)
                self.sent += len(piece)
                stdin.flush()  # else a body of small pieces would not notice the end of git
            except (BrokenPipeError, ValueError):  # git has ended, and perhaps its pipe is closed
                drop(self.body)
                return
        with suppress(BrokenPipeError):
            stdin.close()


def run(repo: Repo, feeder: Feeder, most: int | None = None) -> bytes:
    """Give the push to git; returns what it answers when it has ended, though the body has not.

    `most`: bytes of objects that git may take, if fewer than usual.
    """
    process = repo.git.serve(Service.RECEIVE_PACK, most=most)
    try:
        feeder.start(process)
        answer = collected(process)
        process.wait()
    finally:
        end(process)
        if process.returncode < 0:  # a signal has ended it
            repo.git.remove_quarantines(within=KILLED_SECONDS)
    if process.returncode and feeder.error is None:
        logger.warning("receive-pack of %s ended with %s", repo.uuid, process.returncode)
    return answer


def end_gently(process: GitProcess) -> None:
    """Close git's input, so that it removes the objects of the push itself; else kill it."""
    with suppress(BrokenPipeError, ValueError):
        cast("IO[bytes]", process.stdin).close()
    if not ends_well(process, LAST_SECONDS):
        kill_group(process)


def collected(process: GitProcess) -> bytes:
    """git's answer; of one that somebody makes large, the first `REPORT_LIMIT` bytes."""
    output, kept = cast("IO[bytes]", process.stdout), bytearray()
    while piece := output.read1(PIECE):  # type: ignore[attr-defined]
        if len(kept) < REPORT_LIMIT:
            kept += piece
    return bytes(kept)
