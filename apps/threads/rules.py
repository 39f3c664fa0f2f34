"""Who may change a thread or a reply, and which kinds and links are well formed.

docs/threads.md lists the forms of link targets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from apps.accounts.models import User
from apps.core.access import Level
from apps.core.errors import Conflict, Forbidden, Invalid
from apps.repos.access import RepoAccess
from apps.threads.models import DEPTH_MAX, Reply, Thread, ThreadKind

KINDS = [kind for kind in ThreadKind if kind is not ThreadKind.PULL]
"""The kinds that people choose from."""
ORDERINGS = ["-number", "number", "-last_activity_at", "last_activity_at"]
WORD_MAX = 30
WORD = re.compile(r"[a-z][a-z0-9_-]{0,29}")
LINKS_MAX = 100
TARGET_MAX = 2048
MIRRORED = frozenset({"title", "body", "kind", "status"})
"""What a pull's thread takes from the pull."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
REPO = r"(?:teams|users)/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100}"
NUMBER = r"[1-9][0-9]{0,8}"
HERE_OR_THERE = rf"(?:#?|{REPO}[#/])"
NUMBERED = re.compile(rf"{HERE_OR_THERE}{NUMBER}")
REPLY = re.compile(rf"#?{NUMBER}|{HERE_OR_THERE}{NUMBER}/{NUMBER}")
COMMIT = re.compile(rf"(?:{REPO}@)?[0-9A-Fa-f]{{4,40}}")


def word_problem(word: str) -> str | None:
    """Why this cannot be the kind of a reply or link; None when it can."""
    if WORD.fullmatch(word):
        return None
    return (
        f"A kind is 1 to {WORD_MAX} characters of a-z, 0-9, '_' and '-', and begins with a letter."
    )


def link_problem(kind: str, target: str) -> str | None:
    """Why a link of a known kind cannot have this target; None when it can.

    Only the form is looked at; `references.check_links` asks whether the target is there. A web
    address will do for every kind.
    """
    if kind not in TARGETS or is_web_address(target):
        return None
    fits, wanted = TARGETS[kind]
    return None if fits(target) else f"Must be {wanted}."


def is_web_address(text: str) -> bool:
    """Whether this is an absolute http(s) address with a host and without white space."""
    if UNPRINTABLE.search(text) or " " in text:
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_file_path(text: str) -> bool:
    """Whether this names a file inside a repository, from its root."""
    return not UNPRINTABLE.search(text) and not {"", ".", ".."}.intersection(text.split("/"))


TARGETS: dict[str, tuple[Callable[[str], object], str]] = {
    "url": (is_web_address, "an http or https address"),
    "thread": (NUMBERED.fullmatch, "a number such as 12, or teams/core/api#12"),
    "pull": (NUMBERED.fullmatch, "a number such as 12, or teams/core/api#12"),
    "reply": (REPLY.fullmatch, "a reply's number here, 12/3 or teams/core/api#12/3"),
    "commit": (COMMIT.fullmatch, "4 to 40 hexadecimal digits, also behind teams/core/api@"),
    "file": (is_file_path, "a path inside the repository, such as docs/setup.md"),
}
"""The kinds of links that have a meaning, and the forms of their targets."""


def check_not_mirrored(thread: Thread, fields: set[str]) -> None:
    """What a pull's thread takes from the pull is changed there: 409 `invalid_transition`."""
    taken = sorted(fields & MIRRORED)
    if thread.is_companion and taken:
        raise Conflict(
            "invalid_transition",
            f"Thread {thread.number} belongs to a pull; change {', '.join(taken)} there.",
        )


def check_deletable(thread: Thread, level: Level) -> None:
    """A pull's thread stays; one with replies of others needs admin access.

    Errors: 409 `invalid_transition`, `thread_has_replies`. The caller holds the thread's lock.
    """
    if thread.is_companion:
        raise Conflict(
            "invalid_transition", f"Thread {thread.number} belongs to a pull and stays with it."
        )
    if thread.participant_count > 1 and level < Level.ADMIN:
        raise Conflict(
            "thread_has_replies",
            "Others have replied, so only somebody with admin access may delete this thread.",
        )


def find_parent(thread: Thread, number: int | None) -> Reply | None:
    """The reply that a new one answers; None for the thread itself.

    Errors: 422 `parent_reply_not_found`, `reply_too_deep`, 409 `parent_reply_deleted`. The caller
    holds the thread's lock.
    """
    if number is None:
        return None
    parent = thread.replies.filter(number=number).first()
    if parent is None:
        raise Invalid(
            "parent_reply_not_found", "parent_reply_number: This thread has no such reply."
        )
    if parent.depth >= DEPTH_MAX:
        raise Invalid("reply_too_deep", f"Replies nest up to {DEPTH_MAX} levels below the first.")
    if parent.is_deleted:
        raise Conflict("parent_reply_deleted", f"Reply {number} has been deleted.")
    return parent


def check_not_deleted(reply: Reply) -> None:
    """409 `reply_already_deleted`, for everybody: it is asked before who the creator is."""
    if reply.is_deleted:
        raise Conflict("reply_already_deleted", f"Reply {reply.number} has already been deleted.")


def check_creator(reply: Reply, actor: User) -> None:
    """Only its creator changes a reply, not even staff does: 403 `not_creator`."""
    if reply.created_by_id != actor.pk:
        raise Forbidden("not_creator", "Only the author of a reply may do this.")


def check_may_edit_reply(reply: Reply, by: RepoAccess, fields: set[str]) -> None:
    """The creator; the status alone also the thread's author and those with write access."""
    settles = by.level >= Level.WRITE or by.user.pk == reply.thread.created_by_id
    if not (fields == {"status"} and settles):
        check_creator(reply, by.user)
