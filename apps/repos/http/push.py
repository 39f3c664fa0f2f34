"""One push from its command list to its report.

The refs that may move are chosen before git starts, and git gets only those. The journal is written
before git moves them. Rows and events are written before the client gets the report.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from select import POLLIN, poll
from threading import Thread
from time import monotonic
from typing import IO, Self, cast
from uuid import UUID

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.access import Level
from apps.core.body_limits import body_memory
from apps.core.controls import CONTROLS, has_controls
from apps.core.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Unauthenticated,
    as_api_error,
    plain_error,
    unavailable,
)
from apps.core.locks import give_back_connection, lock
from apps.core.request_ids import with_request_id
from apps.core.slots import Hold
from apps.git.history import distances
from apps.git.protocol import (
    Command,
    ProtocolError,
    PushParser,
    PushRequest,
    Service,
    report,
    reported_refs,
    with_refusals,
)
from apps.git.refs import new_name_problem, valid_ref_name
from apps.git.repo import MOST_PUSHED
from apps.git.run import GitError, GitProcess, ends_well, kill_group
from apps.repos import quota
from apps.repos.access import RepoAccess
from apps.repos.http.streams import LAST_SECONDS, PIECE, PushBody, drop, end
from apps.repos.models import BRANCHES, TAGS, PushJournal, Repo
from apps.repos.models.protection import glob
from apps.repos.models.ref import short_name, twin
from apps.repos.pushes import (
    MOST_NAMED,
    journal_of,
    names_in_use,
    open_journal,
    settle,
    stored_heads,
)
from apps.repos.rules import ZERO, RefMove, find_chain, names_branches
from apps.site.models import DailyCount

MOST_REFS = 20_000
"""Most refs that one push may move. Imports have thousands of tags."""
MOST_LOGGED = 20
"""Most refused refs that one line of the log names."""
REPORT_LIMIT = 16 * 1024 * 1024
KILLED_SECONDS = 2.0
"""Seconds to wait for the children of a killed git to end."""
LIST_COST = 8
"""Bytes of memory that parsing a command list takes for each of its bytes, as measured."""
TOO_MANY = f"one push may move at most {MOST_REFS:,} refs: push this one again"
OUTDATED = "fetch first: the ref has moved"
STALE = "stale info: the ref has moved"
UNPACKED = b"unpack ok"
"""In git's report if it has kept the objects of a push, even if it has moved no ref."""
CHECK_SECONDS = 0.5
"""Seconds between two checks of the credential of a push that is under way."""
SECONDS = 5
"""Most seconds that git may take while the repository is locked."""
logger = logging.getLogger(__name__)


def receive(*, access: RepoAccess, body: Iterator[bytes] | PushBody) -> bytes:
    """Carry out a push; return the report that `git push` prints, also of internal errors.

    Errors: 400 for a malformed push, 403 if all refs are refused and the client reads no report,
    503 while the command lists of other pushes fill the memory, those of `accept_refs`, and those
    of the server if the client disconnects. Even then, refs that git has moved get their rows.
    """
    pieces = body if isinstance(body, PushBody) else PushBody(body)
    with body_memory.hold(f"person:{access.principal.person_id}") as hold:
        request, rest = read_commands(reserve_memory(pieces, hold))
        if all(command.deletes for command in request.commands):
            pieces.finish()  # no pack follows
        try:
            return carry_out(access, request, rest, pieces)
        except Exception as error:
            return failure_report(access.repo, request, pieces, error)


def failure_report(repo: Repo, request: PushRequest, body: PushBody, error: Exception) -> bytes:
    """Refuse every ref because of an error that is not the client's, and name the request: git
    prints nothing of a 5xx. Other errors, and all if the client reads no report, are raised.
    """
    refusal = as_api_error(error)
    if (refusal is not None and refusal.status < 500) or not request.wants_report:
        raise error
    kind = type(error).__name__  # the texts of PostgreSQL have several lines
    logger.error("A push to %s failed: %s", repo.path, kind, exc_info=refusal is None)
    if refusal is None:
        DailyCount.add("server_errors")
    with suppress(ApiError):  # the client has disconnected
        body.drop()
    reason = with_request_id((refusal or plain_error(500)).detail)
    results = [(command.ref, reason) for command in request.commands]
    return report(results, sideband=request.sideband)


def refuse_all(body: Iterator[bytes], error: ApiError, caller: str) -> bytes:
    """Refuse every ref of a push; return the report. `error` if the client reads none, 400, 503."""
    with body_memory.hold(caller) as hold:
        request, _ = read_commands(reserve_memory(body, hold))
        drop(body)
    refused = [(command.ref, error.detail) for command in request.commands]
    if refused and not request.wants_report:
        raise error
    return report(refused, sideband=request.sideband) if refused else b""


def reserve_memory(body: Iterable[bytes], hold: Hold) -> Iterator[bytes]:
    """Yield the pieces of `body`, and reserve the memory that parsing each will take; 503."""
    size = 0
    for piece in body:
        size += len(piece)
        hold.grow_to(size * LIST_COST)
        yield piece


def carry_out(access: RepoAccess, request: PushRequest, rest: bytes, body: PushBody) -> bytes:
    """Choose the refs that may move, let git move them, and record the moves. 503 if a move cannot
    be recorded, because another node has moved the ref where the disk did not show it.
    """
    actor, repo = access.user, access.repo
    if not request.commands:
        # git sends an empty list first, to find out whether it may send a large pack.
        return b""
    left, limit = quota.bytes_left(repo)
    too_much = quota.refusals(request, left, limit)
    push, refused = accept_refs(access, request, stale_moves(repo, request) | too_much)
    if refused:
        log_refused(repo, actor, refused)
    give_back_connection()
    if push is None:
        body.drop()
        if not request.wants_report:
            raise Forbidden("forbidden", f"The push is refused: {listed(refused)}.")
        return report(refused.items(), sideband=request.sideband)
    accepted = [c for c in request.commands if c.ref not in refused]
    own = [RefMove(repo, c.ref, c.old, c.new, actor) for c in accepted]
    commands = request.without(refused) if refused else request.raw
    reported: dict[str, bool] = {}
    with Feeder(commands + rest, body) as feeder:
        try:
            most = left if 0 < left < MOST_PUSHED else None
            answer = run(repo, feeder, access.principal, most)
            reported = reported_refs(answer, sideband=request.sideband)
            if UNPACKED in answer or not request.wants_report:
                quota.add_pushed(repo, feeder.sent)
        finally:
            doubted = settle(repo=repo, push=push, own=own, reported=reported)
            give_back_connection()
    if doubted:
        raise unavailable()
    if not refused or not request.wants_report:
        return answer
    return with_refusals(answer, refused.items(), sideband=request.sideband)


def log_refused(repo: Repo, actor: User, refused: dict[str, str]) -> None:
    logger.info("Refused push to %s by %s: %s", repo.path, actor, listed(refused))
    DailyCount.add("refused_pushes")


def listed(refused: dict[str, str]) -> str:
    """The refused refs with the reasons as text, at most `MOST_LOGGED` of them."""
    named = [f"{ref[:200]!a} ({refused[ref]})" for ref in [*refused][:MOST_LOGGED]]
    others = f" and {len(refused) - len(named)} more" if len(refused) > len(named) else ""
    return ", ".join(named) + others


def accept_refs(
    access: RepoAccess, request: PushRequest, stale: dict[str, str]
) -> tuple[UUID | None, dict[str, str]]:
    """Choose the refs that may move, and write their moves to the journal.

    Returns the push's id, None if no ref may move, and the refused refs with the reasons. Thousands
    of refs are compared with the protections before the lock is taken, and again if these have
    changed by then. Errors: 401, 403, 404, 409 `repo_archived`.
    """
    repo = access.repo
    while True:
        protected = patterns(repo)
        refused = refusals(request, protected, stale)
        with transaction.atomic():
            # Protecting a branch takes the same lock. A push accepted before that is carried out
            # (docs/protections.md).
            lock(repo)
            now = access.renewed()  # the request may have been slow
            now.require_change(Level.WRITE)
            if patterns(repo) == protected:
                others = [command for command in request.commands if command.ref not in refused]
                # The journal is ordered by these locks, so each step in it says where the ref was.
                present = repo.git.some_refs([c.ref for c in others if c.old != ZERO])
                late = name_clashes(repo, others) | outdated_moves(repo, others)
                late |= not_at_old_value(others, present)
                refused = all_or_none(request, refused | late)
                moves = [(c.ref, c.old, c.new) for c in others if c.ref not in refused]
                push = open_journal(actor=now.user, repo=repo, moves=moves) if moves else None
                return push, refused


def patterns(repo: Repo) -> list[str]:
    return list(repo.protections.order_by("id").values_list("branch", flat=True))


def read_commands(body: Iterator[bytes]) -> tuple[PushRequest, bytes]:
    """Read the command list; return it with the bytes of the pack that its last piece holds."""
    parser = PushParser()
    try:
        for piece in body:
            if parser.feed(piece):
                break
        return parser.request, parser.rest
    except ProtocolError as error:
        raise BadRequest("malformed_request", f"The push is malformed: {error}.") from None


def stale_moves(repo: Repo, request: PushRequest) -> dict[str, str]:
    """Refs that are not at the old value which the push names, with the reason for refusing them.
    git itself compares the old value of a deletion only if it has that object.
    """
    moves_any = any(command.old != ZERO for command in request.commands)
    return not_at_old_value(request.commands, repo.git.refs() if moves_any else {})


def not_at_old_value(commands: Sequence[Command], present: Mapping[str, str]) -> dict[str, str]:
    return {c.ref: STALE for c in commands if c.old != ZERO and present.get(c.ref) != c.old}


def outdated_moves(repo: Repo, commands: Sequence[Command]) -> dict[str, str]:
    """Refs whose old value does not match the rows, with the reason for refusing them.

    An old value matches if it is the stored head, or if the journal leads there from the stored
    head. The caller holds the repository's lock. git and `stale_moves` compare with the disk, but a
    file system shared by several nodes may show one of them an old state. If the disk is ahead of
    the rows and no journal explains it, an old value that descends from the stored head is
    accepted: no commit is lost.

    A move that is already stored is refused too. curl repeats a push when a kept-alive connection
    breaks without an answer, and the first push may have ended since `stale_moves` read the disk.
    git would refuse the second one, but its step would stay in the journal if its process died.
    """
    stored = stored_heads(repo, [command.ref for command in commands])
    differing = [c for c in commands if stored.get(c.ref, ZERO) != c.old]
    if not differing:
        return {}
    names = [command.ref for command in differing]
    journal, steps = journal_of(repo), defaultdict[str, list[PushJournal]](list)
    for step in journal.filter(full_name__in=names) if len(names) <= MOST_NAMED else journal:
        steps[step.full_name].append(step)
    # A step in the journal may have moved the ref away, and this push moves it back.
    resent = {c.ref for c in differing if stored.get(c.ref, ZERO) == c.new and not steps[c.ref]}
    unexplained = [
        (c.ref, stored[c.ref], c.old)
        for c in differing
        if c.ref in stored and find_chain(stored[c.ref], c.old, steps[c.ref]) is None
    ]
    git = repo.git.within(SECONDS)
    pairs = [(head, old) for _, head, old in unexplained if old != ZERO]
    by_pair = distances(git, pairs) if pairs else {}
    ahead = {pair for pair, distance in by_pair.items() if distance.lost == 0}
    outdated = {name: OUTDATED for name, head, old in unexplained if (head, old) not in ahead}
    return outdated | dict.fromkeys(resent, STALE)


def refusals(
    request: PushRequest, protected: Sequence[str], stale: dict[str, str]
) -> dict[str, str]:
    """The refs that may not move, with the reasons. `protected`: patterns of protected branches.

    Refs beyond `MOST_REFS` are refused without being compared with them.
    """
    commands, globs = request.commands, [glob(pattern) for pattern in protected]
    for_tags = [glob(pattern.lower()) for pattern in protected if names_branches(pattern)]
    refused = stale | {c.ref: reason for c in commands if (reason := reason_against(c))}
    others = [command for command in commands if command.ref not in refused]
    refused |= {command.ref: TOO_MANY for command in others[MOST_REFS:]}
    for command in others[:MOST_REFS]:
        name = short_name(command.ref)
        # A protected branch may be created: git checks that it does not exist.
        changes_branch = command.ref.startswith(BRANCHES) and not command.creates
        if changes_branch and any(pattern.fullmatch(name) for pattern in globs):
            refused[command.ref] = "protected branch"
        if sets_tag(command) and any(pattern.fullmatch(name.lower()) for pattern in for_tags):
            refused[command.ref] = "a protected branch has this name, or may have it"
    return all_or_none(request, refused)


def all_or_none(request: PushRequest, refused: dict[str, str]) -> dict[str, str]:
    """The refused refs; if the push is atomic and any ref is refused, all refs."""
    if refused and request.atomic:
        return {**{c.ref: "atomic push failed" for c in request.commands}, **refused}
    return refused


def sets_tag(command: Command) -> bool:
    return command.ref.startswith(TAGS) and not command.deletes


def name_clashes(repo: Repo, commands: Sequence[Command]) -> dict[str, str]:
    """Created or moved tags with a branch's name, and created branches with a tag's name, ignoring
    case, with the reason for refusing them. The caller holds the repository's lock.

    With both, `git fetch URL main` would fetch the tag. Where file names ignore case, `git merge
    main` would merge the tag `MAIN`. If one push creates both, the tag is refused. Clashing names
    from before this rule can be deleted, and their branch can be moved.
    """
    refs = [c.ref for c in commands if sets_tag(c) or (c.creates and c.ref.startswith(BRANCHES))]
    if not refs:
        return {}
    taken = {ref.lower() for ref in refs if ref.startswith(BRANCHES)} | names_in_use(repo, refs)
    return {
        ref: f"a {'tag' if ref.startswith(BRANCHES) else 'branch'} has this name"
        for ref in refs
        if twin(ref).lower() in taken
    }


def reason_against(command: Command) -> str | None:
    """The reason why nobody may move this ref, apart from protections; None if it may move."""
    if not command.ref.startswith((BRANCHES, TAGS)):
        return "only branches and tags can be pushed"
    # A ref from before this rule can be deleted.
    if not command.deletes and has_controls(command.ref):
        return f"names may not contain {CONTROLS}"
    if command.creates and (problem := new_name_problem(short_name(command.ref))):
        return problem
    if not valid_ref_name(command.ref):
        return "this name is not allowed"
    # git takes two zeros as "delete the ref, whatever its object".
    return "old and new are the same" if command.old == command.new else None


class Feeder:
    """Writes a push to git in a thread as it arrives. git may end before the body does: its moves
    are recorded at once, and the rest is dropped, so that the client gets the report.

    Leaving the `with` block waits for the thread, and raises the error of the body.
    """

    def __init__(self, beginning: bytes, body: PushBody) -> None:
        self.beginning = beginning
        self.body = body
        self.sent = 0
        self.error: Exception | None = None
        self.thread: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.thread is not None:
            self.thread.join()
        if self.error is not None and kind is None:
            raise self.error

    def start(self, process: GitProcess) -> None:
        self.thread = Thread(target=self._run, args=[process], daemon=True)
        self.thread.start()

    def _run(self, process: GitProcess) -> None:
        try:
            self._feed(cast("IO[bytes]", process.stdin))
        except Exception as error:
            self.error = error
            # git removes the push's objects once its input is closed.
            with suppress(BrokenPipeError, ValueError):
                cast("IO[bytes]", process.stdin).close()
            if not ends_well(process, LAST_SECONDS):
                kill_group(process)

    def _feed(self, stdin: IO[bytes]) -> None:
        for piece in chain([self.beginning], self.body):
            try:
                stdin.write(piece)
                self.sent += len(piece)
                stdin.flush()  # with small pieces, notices the end of git at once
            except (BrokenPipeError, ValueError):  # git has ended; its pipe may be closed
                self.body.drop()
                return
        with suppress(BrokenPipeError):
            stdin.close()


def run(repo: Repo, feeder: Feeder, principal: Principal, most: int | None = None) -> bytes:
    """Run receive-pack; return its answer. `most`: bytes of a pack, if fewer than usual.

    It is killed, and moves nothing, if the account is closed or the token ends meanwhile: 401.
    """
    process = repo.git.serve(Service.RECEIVE_PACK, most=most)
    try:
        feeder.start(process)
        answer = collected(process, principal)
        process.wait()
    finally:
        feeder.body.finish()
        end(process)
        if process.returncode < 0:  # killed by a signal
            repo.git.remove_quarantines(within=KILLED_SECONDS)
    if process.returncode and feeder.error is None:
        logger.warning("receive-pack of %s ended with %s", repo.uuid, process.returncode)
        if not answer:
            raise GitError("receive-pack ended without a report")
    return answer


def collected(process: GitProcess, principal: Principal) -> bytes:
    """git's answer, cut after `REPORT_LIMIT` bytes: a hostile push can make it large."""
    output, answer = cast("IO[bytes]", process.stdout), bytearray()
    waiting, check_at = poll(), monotonic() + CHECK_SECONDS
    waiting.register(output, POLLIN)
    while True:
        is_ready = waiting.poll(CHECK_SECONDS * 1000)
        if monotonic() >= check_at:
            check_credential(principal)
            check_at = monotonic() + CHECK_SECONDS
        if not is_ready:
            continue
        # Ignored, because the type of pipes does not say that they are buffered.
        piece = output.read1(PIECE)  # type: ignore[attr-defined]
        if not piece:
            return bytes(answer)
        if len(answer) < REPORT_LIMIT:
            answer += piece


def check_credential(principal: Principal) -> None:
    """401 if the credential of a push has ended, or the account is closed."""
    is_valid = principal.renewed() is not None
    give_back_connection()
    if not is_valid:
        text = "This token or key has ended, or the account is deactivated. The push was stopped."
        raise Unauthenticated("invalid_token", text)
