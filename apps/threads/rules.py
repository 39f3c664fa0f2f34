"""Rules of threads and replies: permission to change them, valid kinds, valid links.

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
"""The kinds that people can choose."""
ORDERINGS = ["-number", "number", "-last_activity_at", "last_activity_at"]
WORD_MAX = 30
WORD = re.compile(r"[a-z][a-z0-9_-]{0,29}")
LINKS_MAX = 100
TARGET_MAX = 2048
MIRRORED = frozenset({"title", "body", "kind", "status"})
"""The fields that a companion thread takes from its pull."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
REPO = r"(?:teams|users)/[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,100}"
NUMBER = r"[1-9][0-9]{0,8}"
PREFIX = rf"(?:#?|{REPO}[#/])"
NUMBERED = re.compile(rf"{PREFIX}{NUMBER}")
REPLY = re.compile(rf"#?{NUMBER}|{PREFIX}{NUMBER}/{NUMBER}")
COMMIT = re.compile(rf"(?:{REPO}@)?[0-9A-Fa-f]{{4,40}}")


def word_problem(word: str) -> str | None:
    """The problem with a word as the kind of a reply or link; None for a valid kind."""
    if WORD.fullmatch(word):
        return None
    return (
        f"A kind is 1 to {WORD_MAX} characters of a-z, 0-9, '_' and '-', and begins with a letter."
    )


def link_problem(kind: str, target: str) -> str | None:
    """The problem with the form of a link target; None for a valid one, and for unknown kinds.
    Every kind accepts a web address. `references.check_links` checks that the target exists.
    """
    if kind not in TARGETS or is_web_address(target):
        return None
    is_valid, expected = TARGETS[kind]
    return None if is_valid(target) else f"Must be {expected}."


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
"""The check of the target of each known kind of link, and the expected form in words."""


def check_not_mirrored(thread: Thread, fields: set[str]) -> None:
    """409 `invalid_transition` for fields of a companion thread that its pull changes."""
    mirrored = sorted(fields & MIRRORED)
    if thread.is_companion and mirrored:
        raise Conflict(
            "invalid_transition",
            f"Thread {thread.number} belongs to a pull; change {', '.join(mirrored)} there.",
        )


def check_deletable(thread: Thread, level: Level) -> None:
    """409 `invalid_transition` for a companion thread, 409 `thread_has_replies` for a thread with
    replies of others without admin access. The caller holds the thread's lock.
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
    """The parent of a new reply; None for a reply to the thread itself. The caller has the lock.

    422 `parent_reply_not_found`, `reply_too_deep`, 409 `parent_reply_deleted`.
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
    """409 `reply_already_deleted`, for everybody: check it before `check_creator`."""
    if reply.is_deleted:
        raise Conflict("reply_already_deleted", f"Reply {reply.number} has already been deleted.")


def check_creator(reply: Reply, actor: User) -> None:
    """403 `not_creator` for everybody but the creator of the reply, staff included."""
    if reply.created_by_id != actor.pk:
        raise Forbidden("not_creator", "Only the author of a reply may do this.")


def check_may_edit_reply(reply: Reply, access: RepoAccess, fields: set[str]) -> None:
    """403 `not_creator`. The thread's author and writers may set the status alone, too."""
    may_set_status = access.level >= Level.WRITE or access.user.pk == reply.thread.created_by_id
    if not (fields == {"status"} and may_set_status):
        check_creator(reply, access.user)
