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
SENTENCES = {
    Kind.TEAM_CREATED: "created the team {team}",
    Kind.TEAM_UPDATED: "changed the team {team}: {changed}",
    Kind.MEMBER_ADDED: "added {person} to the team {team} as {role}",
    Kind.MEMBER_UPDATED: "made {person} {role} of the team {team}",
    Kind.MEMBER_REMOVED: "removed {person} from the team {team}",
    Kind.REPO_CREATED: "created the repository {repo}",
    Kind.REPO_UPDATED: "changed the repository {repo}: {changed}",
    Kind.FORK_CREATED: "made the fork {repo}",
    Kind.FORK_FAILED: "asked for a fork that could not be made",
    Kind.BRANCH_CREATED: "pushed the new branch {ref} to {repo}",
    Kind.BRANCH_PUSHED: "pushed {commits} to {ref} in {repo}",
    Kind.BRANCH_DELETED: "deleted the branch {ref} in {repo}",
    Kind.TAG_CREATED: "pushed the tag {ref} to {repo}",
    Kind.TAG_DELETED: "deleted the tag {ref} in {repo}",
    Kind.COMMIT_FORGOTTEN: "removed the commit {sha} from {repo} for good",
    Kind.PROTECTION_CREATED: "protected {branch} in {repo}",
    Kind.PROTECTION_UPDATED: "changed the protection of {branch} in {repo}",
    Kind.PROTECTION_DELETED: "ended the protection of {branch} in {repo}",
    Kind.APPROVER_ADDED: "made {person} an approver of {branch} in {repo}",
    Kind.APPROVER_REMOVED: "removed {person} from the approvers of {branch} in {repo}",
    Kind.PULL_CREATED: "opened {subject}",
    Kind.PULL_UPDATED: "edited {subject}",
    Kind.PULL_PUSHED: "pushed to {subject}",
    Kind.PULL_DRAFTED: "made a draft of {subject}",
    Kind.PULL_READIED: "marked as ready {subject}",
    Kind.PULL_CLOSED: "closed {subject}",
    Kind.PULL_REOPENED: "reopened {subject}",
    Kind.PULL_MERGED: "merged {subject} into {target}",
    Kind.REVIEW_CREATED: "{decided} {subject}",
    Kind.REVIEW_UPDATED: "changed a review of {subject}",
    Kind.REVIEW_DISMISSED: "dismissed a review of {subject}",
    Kind.REVIEW_DELETED: "deleted a review of {subject}",
    Kind.THREAD_CREATED: "started {subject}",
    Kind.THREAD_UPDATED: "edited the thread {subject}",
    Kind.THREAD_STATUS_CHANGED: "marked {subject} as {after}",
    Kind.THREAD_DELETED: "deleted the thread {subject}",
    Kind.REPLY_CREATED: "replied in {subject}",
    Kind.REPLY_UPDATED: "edited a reply in {subject}",
    Kind.REPLY_DELETED: "deleted a reply in {subject}",
    Kind.TOKEN_CREATED: "made the API token {name}",
    Kind.TOKEN_REVOKED: "revoked the API token {name}",
    Kind.TOKEN_DELETED: "deleted the API token {name}",
    Kind.USER_JOINED: "joined",
    Kind.USER_UPDATED: "changed the account of {person}: {changed}",
    Kind.USER_DEACTIVATED: "deactivated the account of {person}",
    Kind.INVITE_CREATED: "invited somebody",
    Kind.INVITE_UPDATED: "changed an invite",
    Kind.INVITE_ACCEPTED: "accepted an invite",
    Kind.INVITE_DELETED: "deleted an invite",
    Kind.SITE_SETTINGS_UPDATED: "changed the settings of the site: {changed}",
    Kind.RATE_LIMIT_CREATED: "added a rate limit for {scope}",
    Kind.RATE_LIMIT_UPDATED: "changed the rate limit for {scope}",
    Kind.RATE_LIMIT_DELETED: "lifted the rate limit for {scope}",
}
"""The sentence of each kind. The names in braces are those of `PARTS`."""
OF_ONESELF = {
    Kind.MEMBER_REMOVED: "left the team {team}",
    Kind.USER_UPDATED: "changed their account: {changed}",
}
"""The sentences if the actor is also the person whom the event is about."""
BY_SOMEBODY_ELSE = {Kind.USER_JOINED: "added the account of {person}"}
DECIDED = {"approved": "approved", "changes_requested": "requested changes on"}
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
}
"""The parts of sentences, each made from the event's record and the base of its links."""
