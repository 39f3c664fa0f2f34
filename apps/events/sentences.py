"""Sentences that describe events to people, as HTML with links. All readers get the same sentence.

A sentence begins after the name of the actor. It has current names; deleted targets have no link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.events.kinds import Kind, words_of

Record = dict[str, Any]
SHORT = 7
"""Number of digits of an abbreviated commit name."""
SENTENCES = {kind: kind.sentence for kind in Kind}
OF_ONESELF = {
    Kind.MEMBER_REMOVED: "left the team {team}",
    Kind.USER_UPDATED: "changed their account: {changed}",
    Kind.USER_DELETED: "deleted their account",
}
"""The sentences if the actor is also the person whom the event is about."""
BY_SOMEBODY_ELSE = {Kind.USER_JOINED: "added the account of {person}"}
DECIDED = {"approved": "approved", "changes_requested": "requested changes on"}
FAILURES = {"gave_up": "failed for three days", "gone": "answered 410"}
SOMETHING = "something"


def sentence(record: Record, base: str = "") -> SafeString:
    """The sentence of the event with this record; `base` is the scheme and host of its links.

    A kind from a newer version has its name as sentence.
    """
    kind = record["kind"]
    text = SENTENCES.get(kind)
    if text is None:
        return format_html("{} {}", words_of(kind), linked(record))
    is_own = person_of(record) in {None, record["actor_user_username"]}
    text = (OF_ONESELF if is_own else BY_SOMEBODY_ELSE).get(kind, text)
    parts = {name: make(record, base) for name, make in PARTS.items() if f"{{{name}}}" in text}
    return format_html(text, **parts) if parts else SafeString(text)


def short_path(path: str) -> str:
    """The path without its first part: `acme/api` for `teams/acme/api`."""
    return path.partition("/")[2]


def linked(record: Record) -> SafeString:
    """The subject of the event, linked to its page if it has one."""
    title = record["summary"]["thread_title"] or record["target"]["kind"].replace("_", " ")
    return link(record["summary"]["web_url"], title)


def link(address: str | None, text: object) -> SafeString:
    if address is None:
        return format_html("{}", text)
    return format_html('<a href="{}">{}</a>', address, text)


def subject(record: Record, base: str) -> SafeString:
    """The number, title and repository of a thread or pull."""
    target, summary = record["target"], record["summary"]
    number = target.get("thread_number", target.get("number", target.get("pull_number", "")))
    text = format_html("#{} {}", number, summary["thread_title"] or "")
    address = summary["web_url"] if summary["thread_title"] else None
    return format_html("{} in {}", link(address, text), repo(record, base))


def repo(record: Record, base: str) -> SafeString:
    path = record["repo_path"]
    return link(f"{base}/{path}", short_path(path)) if path else SafeString("a repository")


def team(record: Record, base: str) -> SafeString:
    slug = record["team_slug"]
    return link(f"{base}/teams/{slug}", slug) if slug else SafeString("that is gone")


def person_of(record: Record) -> str | None:
    """The username of the person whom the event is about; None if it is about no person."""
    name = record["data"].get("username", record["target"].get("username"))
    return None if name is None else str(name)


def person(record: Record, base: str) -> SafeString:
    name = person_of(record)
    return link(f"{base}/users/{name}", name) if name else SafeString("somebody")


def changed(record: Record, _base: str) -> str:
    names = record["data"].get("changed") or [SOMETHING]
    return ", ".join(str(name).replace("_", " ") for name in names)


def commits(record: Record, _base: str) -> str:
    count = record["data"].get("commit_count")
    forced = " by force" if record["data"].get("forced") else ""
    many = f"{count} commit{'' if count == 1 else 's'}" if count else "commits"
    return f"{many}{forced}"


def mono(text: object) -> SafeString:
    return format_html('<span class="branch">{}</span>', text)


def of_data(name: str, *, plain: bool = True) -> Callable[[Record, str], Any]:
    """A part from a value in the data of the event: plain words, or a name in `mono`."""

    def make(record: Record, _base: str) -> Any:
        value = record["data"].get(name)
        text = SOMETHING if value is None else str(value)
        return text.replace("_", " ") if plain else mono(text)

    return make


PARTS: dict[str, Callable[[Record, str], Any]] = {
    "subject": subject,
    "repo": repo,
    "team": team,
    "person": person,
    "changed": changed,
    "commits": commits,
    "sha": lambda record, _base: mono(str(record["data"].get("sha", ""))[:SHORT]),
    "decided": lambda record, _base: DECIDED.get(record["data"].get("status", ""), "reviewed"),
    "ref": lambda record, _base: mono(record["target"].get("name", SOMETHING)),
    "branch": of_data("branch", plain=False),
    "target": of_data("target_branch", plain=False),
    "role": of_data("role"),
    "after": of_data("after"),
    "name": lambda record, _base: record["data"].get("name", SOMETHING),
    "scope": of_data("scope", plain=False),
    "path": of_data("path", plain=False),
    "webhook": lambda record, _base: link(record["summary"]["web_url"], "webhook"),
    "failure": lambda record, _base: FAILURES.get(record["data"].get("reason", ""), "failed"),
    "context": of_data("context", plain=False),
    "state": of_data("state"),
    "reason": of_data("reason"),
}
"""The parts of sentences, each made from the event's record and the base of its links."""
