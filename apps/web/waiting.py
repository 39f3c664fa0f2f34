"""What waits for a person, and what of theirs waits for others: rows for home, pulls and inbox.

One row per pull or thread, with all reasons for which it stands there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.accounts.principal import Principal
from apps.events.kinds import PING_WORDS
from apps.events.queries import PingRow
from apps.events.sentences import short_path
from apps.pulls.models import Pull, PullStatus
from apps.pulls.queries import OwnPull, own_pulls, pulls_awaiting

MOST = 50
"""Rows of each sort that are looked at, those of the newest activity."""
READY = ("good", "yes", "ready")
CHECKING = ("wait", "wait", "checking")
"""Git has not told yet whether it has a conflict."""


@dataclass(frozen=True)
class Row:
    """A row of a list of what waits."""

    key: tuple[str, int]
    """What it is about, so that one pull has one row."""
    number: int | None
    title: str
    url: str
    place: str
    at: dt.datetime
    reasons: tuple[str, ...] = ()
    state: tuple[str, str, str] | None = None
    """A tint, an icon and a word."""
    stat: tuple[int, int] | None = None
    """Lines that are added and deleted."""
    pings: Sequence[Any] = field(default=())
    """Those of the person that are about it, the newest first."""

    @property
    def is_unread(self) -> bool:
        return any(ping.read_at is None for ping in self.pings)

    def joined(self, other: Row) -> Row:
        """This row with the reasons of another about the same."""
        return replace(
            self,
            at=max(self.at, other.at),
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            state=self.state or other.state,
            stat=self.stat or other.stat,
            pings=[*self.pings, *other.pings],
        )


def waiting_rows(principal: Principal) -> tuple[list[Row], list[Row]]:
    """The pulls that wait for the person, and theirs that wait for others; five queries."""
    yours, others = [awaiting_row(pull) for pull in pulls_awaiting(principal, MOST)], list[Row]()
    for own in own_pulls(principal, MOST):
        is_yours, row = own_row(own)
        (yours if is_yours else others).append(row)
    return in_order(yours), in_order(others)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """One row for each pull or thread, newest first; what rows come first to say is kept."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        found[row.key] = found[row.key].joined(row) if row.key in found else row
    return sorted(found.values(), key=lambda row: row.at, reverse=True)


def pull_row(pull: Pull, *reasons: str, state: tuple[str, str, str] | None = None) -> Row:
    path = pull.repo.path
    return Row(
        key=("thread", pull.thread_id),
        number=pull.number,
        title=pull.thread.title,
        url=f"/{path}/pulls/{pull.number}",
        place=short_path(path),
        at=pull.thread.last_activity_at,
        reasons=reasons,
        state=state,
    )


def awaiting_row(pull: Pull) -> Row:
    """A pull that waits for the person's review."""
    asks = f"{pull.thread.created_by.username} requested your review"
    count = pull.changed_files
    files = [f"{count} file{'' if count == 1 else 's'}"] if count else []
    row = pull_row(pull, asks, *files)
    return replace(row, stat=(pull.additions, pull.deletions) if count else None)


def own_row(own: OwnPull) -> tuple[bool, Row]:
    """A pull of the person's, and whether it waits for them."""
    pull, approval = own.pull, own.approval
    if (branch := own.missing_branch) is not None:
        missing = f"there is no branch {branch}"
        return True, pull_row(pull, "your pull", missing, state=("bad", "no", "branch missing"))
    if pull.status == PullStatus.DRAFT:
        return False, pull_row(pull, "your draft", state=("wait", "wait", "draft"))
    if people := approval.changes_requested_by:
        asked = f"{listed(people)} requested changes"
        return True, pull_row(pull, "your pull", asked, state=("bad", "no", "changes requested"))
    if refusal := refusal_of_git(pull):
        reason, word = refusal
        return True, pull_row(pull, "your pull", reason, state=("bad", "no", word))
    if wanting := approval.wanting:
        pending = [user.username for user in approval.pending]
        have = "has" if len(pending) == 1 else "have"
        text = f"{listed(pending)} {have} not approved" if pending else "approvals are missing"
        count = f"{approval.required - wanting} of {approval.required} approvals"
        return False, pull_row(pull, "your pull", text, state=("wait", "wait", count))
    return approved_row(own)


def refusal_of_git(pull: Pull) -> tuple[str, str] | None:
    """Why git cannot merge the pull, and a word for it; None where it can, or has not told yet."""
    if pull.has_conflict:
        return f"it conflicts with {pull.target_branch}", "conflict"
    if pull.has_conflict is False and pull.nothing_to_merge:
        return f"{pull.target_branch} already has all of its commits", "nothing to merge"
    return None


def approved_row(own: OwnPull) -> tuple[bool, Row]:
    """A pull of the person's that lacks no approval, and that git does not refuse to merge."""
    pull = own.pull
    given = "all approvals are in" if own.approval.required else "no approval is required"
    if not own.may_write:
        waits = ("wait", "wait", "to be merged")
        return False, pull_row(pull, "your pull", given, state=waits)
    is_ready = pull.has_conflict is False
    return is_ready, pull_row(pull, "your pull", given, state=READY if is_ready else CHECKING)


def ended_row(pull: Pull) -> Row:
    """A pull of the person's that is merged or closed."""
    if pull.status == PullStatus.MERGED:
        return pull_row(pull, f"into {pull.target_branch}", state=("done", "yes", "merged"))
    return pull_row(pull, f"into {pull.target_branch}", state=("soft", "no", "closed"))


def listed(names: Sequence[str]) -> str:
    """`bob, carol and erin`; of many the first three, and how many more there are."""
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def ping_row_of(ping: PingRow, record: dict[str, Any]) -> Row:
    """A ping, from the record of its event."""
    event, summary = ping.event, record["summary"]
    about = event.thread_id is not None
    path = record["repo_path"]
    actor = record["actor_user_username"] or "Guildhall"
    return Row(
        key=("thread" if about else "event", event.thread_id or event.id),
        number=event.number,
        title=summary["thread_title"] or record["team_slug"] or "Gone",
        url=summary["web_url"] or "",
        place=short_path(path) if path else "",
        at=event.created_at,
        reasons=(f"{actor} {PING_WORDS.get(ping.kind, ping.kind)}",),
        pings=[ping],
    )
