"""One push from its command list to its report.

Which refs may move is decided before git starts, and git is given no others; the journal is
written before git may move them; rows and events are written before the client gets the report.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from threading import Thread
from typing import IO, cast
from uuid import UUID

from django.db import transaction

from apps.core.access import Level
from apps.core.errors import BadRequest
from apps.core.locks import give_back_connection, lock
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
from apps.git.run import GitProcess
from apps.repos.access import RepoAccess
from apps.repos.http.streams import PIECE, drop, end
from apps.repos.models import BRANCHES, TAGS, Protection, Repo
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import CONTROLS, ZERO, RefMove, has_controls

MOST_REFS = 20_000
"""Refs that one push may move: imports have thousands of tags."""
REPORT_LIMIT = 16 * 1024 * 1024
TOO_MANY = f"one push moves {MOST_REFS:,} refs at most: push this one once more"
logger = logging.getLogger(__name__)


def receive(*, by: RepoAccess, body: Iterator[bytes]) -> bytes:
    """Carry out a push; returns the report that `git push` prints.

    `body` yields the request. Errors: 400 for what is no push, those of `accept_refs`, and what
    the server raises when the client goes away. Refs that git has moved by then have their rows.
    """
    actor, repo = by.user, by.repo
    request, rest = read_commands(body)
    if not request.commands:
        # Before it sends a large pack, git asks with an empty list whether it may.
        return b""
    push, refused = accept_refs(by, request, stale_moves(repo, request))
    give_back_connection()
    if push is None:
        drop(body)
        return report(refused.items(), sideband=request.sideband) if request.wants_report else b""
    accepted = [c for c in request.commands if c.ref not in refused]
    try:
        return run(repo, request, refused, rest, body)
    finally:
        own = [RefMove(repo, c.ref, c.old, c.new, actor) for c in accepted]
        settle(repo=repo, push=push, own=own)


@transaction.atomic
def accept_refs(
    by: RepoAccess, request: PushRequest, stale: dict[str, str]
) -> tuple[UUID | None, dict[str, str]]:
    """Decide which refs may move, and write them to the journal.

    Returns the push's id, None when no ref may move, and the refused refs with the reasons.

    Locks the repository, as whoever protects a branch does: a push that is accepted first is
    carried out (docs/protections.md). Then asks anew whether the caller may push, since the
    request may have come slowly. Errors: 401, 403, 404, 409 `repo_archived`.
    """
    lock(by.repo)
    now = by.renewed()
    now.require_change(Level.WRITE)
    refused = refusals(request, list(by.repo.protections.all()), stale)
    moves = [(c.ref, c.old, c.new) for c in request.commands if c.ref not in refused]
    return open_journal(actor=now.user, repo=by.repo, moves=moves) if moves else None, refused


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
    return {command.ref: "this is not what is there now" for command in wrong}


def refusals(
    request: PushRequest, protections: Sequence[Protection], stale: dict[str, str]
) -> dict[str, str]:
    """Which refs may not move, and why. Where the client asked for `atomic`, all or none."""
    commands = request.commands
    ruled = {c.ref: reason for c in commands if (reason := reason_against(c, protections))}
    found = {**stale, **ruled}
    others = [command.ref for command in commands if command.ref not in found]
    found |= dict.fromkeys(others[MOST_REFS:], TOO_MANY)
    if found and request.atomic:
        return {**{c.ref: "atomic push failed" for c in commands}, **found}
    return found


def reason_against(command: Command, protections: Sequence[Protection]) -> str | None:
    """Why nobody may move this ref; None when one may.

    A protected branch may be created: git checks that there is none. What is "not there" before and
    after is no creation: git would delete whatever there is.
    """
    if not command.ref.startswith((BRANCHES, TAGS)):
        return "only branches and tags can be pushed"
    # One that was made before this rule can be deleted.
    if not command.deletes and has_controls(command.ref):
        return f"names have no {CONTROLS}"
    if not valid_ref_name(command.ref):
        return "this name is not allowed"
    if command.old == command.new:
        return "old and new are the same"
    if command.creates or not command.ref.startswith(BRANCHES):
        return None
    name = command.ref.removeprefix(BRANCHES)
    return "protected branch" if any(one.matches(name) for one in protections) else None


def run(
    repo: Repo, request: PushRequest, refused: dict[str, str], rest: bytes, body: Iterator[bytes]
) -> bytes:
    """Give the rest of the push to git; returns what it answers, and the refusals with it."""
    asked = request.without(refused) if refused else request.raw
    kept = bytearray()
    process = repo.git.serve(Service.RECEIVE_PACK)
    try:
        reader = Thread(target=drain, args=(process, kept), daemon=True)
        reader.start()
        feed(process, asked + rest, body)
        reader.join()
        process.wait()
    finally:
        end(process)
    if process.returncode:
        logger.warning("receive-pack of %s ended with %s", repo.uuid, process.returncode)
    if not refused or not request.wants_report:
        return bytes(kept)
    return with_refusals(bytes(kept), refused.items(), sideband=request.sideband)


def feed(process: GitProcess, beginning: bytes, body: Iterator[bytes]) -> None:
    """Write the request to git; some of what git leaves is dropped, so that the client gets the
    report.
    """
    stdin = cast("IO[bytes]", process.stdin)
    try:
        for piece in chain([beginning], body):
            stdin.write(piece)
    except BrokenPipeError:
        drop(body)
    with suppress(BrokenPipeError):
        stdin.close()


def drain(process: GitProcess, kept: bytearray) -> None:
    """Collect git's answer; of one that somebody makes large, the first `REPORT_LIMIT` bytes."""
    output = cast("IO[bytes]", process.stdout)
    while piece := output.read1(PIECE):  # type: ignore[attr-defined]
        if len(kept) < REPORT_LIMIT:
            kept += piece
