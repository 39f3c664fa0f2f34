"""`/`, `/inbox` and `/pulls`: pulls and pings waiting for a person, and the person's pulls.

The lists have one row per pull or thread, with all reasons why it is listed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.text import get_text_list

from apps.accounts.principal import Principal, first_rows
from apps.core.access import Level
from apps.core.errors import Invalid
from apps.core.pagination import MOST_COUNTED
from apps.events import actions
from apps.events.kinds import PING_WORDS, Kind
from apps.events.models import Key
from apps.events.pagination import PAST_ALL
from apps.events.queries import PingRow, list_pings, newest_events, ping_row, ping_values
from apps.events.sentences import short_path
from apps.events.serializers import activity_record, event_records
from apps.pulls import queries
from apps.pulls.models import Pull, PullStatus
from apps.pulls.queries import OwnPull, with_open_pulls
from apps.repos.models import RepoQuerySet
from apps.repos.queries import list_own_repos, list_readable_repos
from apps.site.models import SiteSettings
from apps.statuses.models import StatusState
from apps.teams.queries import accessible_teams
from apps.web.activity import feed_context, graph, scope_keys
from apps.web.decorators import POST, page
from apps.web.responses import PageRequest, page_of, parameter, redirect_to, render_page, safe_path

MOST_PINGS = 50
SHOWN = 20
"""Rows in each list of waiting pulls and pings."""
REPOS = 10
MOST_REPOS = 50
"""How many of the person's repositories the list of events covers."""
MOST_TEAMS = 50
EVENTS = 12
SHOWS = {"you": "Waiting for you", "others": "Waiting for others", "done": "Done"}
MOST = 50
"""Pulls of each kind that are considered, by newest activity."""
State = tuple[str, str, str]
"""CSS tint, icon and word."""
ENDED: tuple[State, State] = ("soft", "no", "closed"), ("done", "yes", "merged")
READY = ("good", "yes", "ready")
CHECKING = ("wait", "wait", "checking")
"""Git has not checked the pull for conflicts yet."""
FAILED = {StatusState.FAILURE, StatusState.ERROR}


@page(Level.PUBLIC)
def home(request: PageRequest) -> HttpResponse:
    """Waiting pulls and pings, repositories and events; the welcome page for anonymous people."""
    if not request.principal.is_signed_in:
        return welcome(request)
    principal = request.principal
    teams = first_rows(principal, accessible_teams, MOST_TEAMS)
    keys = scope_keys(principal, teams, first_rows(principal, personal_repos, MOST_REPOS))
    events = newest_events(keys.values(), before=PAST_ALL, size=EVENTS)
    unread = [*ping_values(list_pings(principal, unread=True))[: MOST_COUNTED + 1]]
    pings = [ping_row(row) for row in unread[:MOST_PINGS]]
    records = event_records([*events, *(ping.event for ping in pings)], "")
    feed_records, ping_records = records[: len(events)], records[len(events) :]
    yours, others = waiting_rows(principal)
    yours = joined_rows([*yours, *map(ping_row_of, pings, ping_records)])
    return render_page(
        request,
        "home",
        unread=len(unread),
        yours=yours[:SHOWN],
        yours_count=len(yours),
        others=others[:SHOWN],
        repos=first_rows(principal, repos_with_pulls, REPOS),
        teams=teams,
        feed=feed_context(feed_records, keys),
        graph=graph(activity_record({}, Key("actor_id", principal.user.pk), principal)),
    )


def personal_repos(principal: Principal) -> RepoQuerySet:
    return list_own_repos(principal).filter(owner_user=principal.user.pk)


def repos_with_pulls(principal: Principal) -> RepoQuerySet:
    return with_open_pulls(list_own_repos(principal))


def welcome(request: PageRequest) -> HttpResponse:
    """An introduction, how to sign in, and the public repositories."""
    page = page_of(request, list_readable_repos(request.principal))
    return render_page(request, "welcome", page=page, site=SiteSettings.load())


@page(Level.NONE)
def inbox(request: PageRequest) -> HttpResponse:
    """The unread pings, newest first; with `?unread=false` all of them."""
    unread = request.GET.get("unread") != "false"
    rows = ping_values(list_pings(request.principal, unread=unread))
    page = page_of(request, rows, ping_row)
    records = event_records([ping.event for ping in page["results"]], "")
    page["results"] = [*map(ping_row_of, page["results"], records)]
    return render_page(request, "inbox", page=page, unread_only=unread)


@page(Level.NONE, methods=POST, throttle="pings")
def read_ping(request: PageRequest, uid: str) -> HttpResponse:
    """Mark a ping as read, and go back to the list."""
    pings = list_pings(request.principal)
    actions.read_ping(principal=request.principal, ping=get_object_or_404(pings, uuid=uid))
    return back_to_list(request)


@page(Level.NONE, methods=POST, throttle="pings")
def read_all(request: PageRequest) -> HttpResponse:
    """Mark all pings as read, those on other pages of the list included."""
    actions.read_all_pings(principal=request.principal)
    messages.success(request, "All pings marked as read.")
    return back_to_list(request)


def back_to_list(request: PageRequest) -> HttpResponse:
    """303 to the inbox, with the filter and page of the form's `next`."""
    path = safe_path(parameter(request, "next"))
    return redirect_to(path if path.partition("?")[0] == reverse("inbox") else "inbox")


@page(Level.NONE)
def own_pulls(request: PageRequest) -> HttpResponse:
    """`?show=you`, `others`, or `done` for the person's merged and closed pulls."""
    show = request.GET.get("show", "you")
    if show not in SHOWS:
        raise Invalid("validation_failed", f"show: must be one of {', '.join(SHOWS)}.")
    if show == "done":
        page = page_of(request, queries.list_ended(request.principal), ended_row)
    else:
        page = {"results": waiting_rows(request.principal)[show == "others"]}
    return render_page(request, "own_pulls", page=page, show=show, shows=[*SHOWS.items()])


@dataclass(frozen=True)
class Row:
    """A row of the lists: a pull, a thread, or the event of a ping."""

    key: tuple[str, int]
    """Identifies the pull, thread or event: rows with the same key are joined."""
    number: int | None
    title: str
    url: str
    repo_name: str
    at: dt.datetime
    reasons: tuple[str, ...] = ()
    state: State | None = None
    stat: tuple[int, int] | None = None
    """Added and deleted lines."""
    pings: Sequence[Any] = field(default=())
    """The person's pings about it, newest first."""

    @property
    def is_unread(self) -> bool:
        return any(ping.read_at is None for ping in self.pings)

    def joined(self, other: Row) -> Row:
        return replace(
            self,
            at=max(self.at, other.at),
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            state=self.state or other.state,
            stat=self.stat or other.stat,
            pings=[*self.pings, *other.pings],
        )


def waiting_rows(principal: Principal) -> tuple[list[Row], list[Row]]:
    """The pulls waiting for the person, and the person's pulls waiting for others; at most six
    queries.
    """
    yours = [awaiting_row(pull) for pull in queries.pulls_awaiting(principal, MOST)]
    others: list[Row] = []
    for own in queries.own_pulls(principal, MOST):
        is_yours, row = own_row(own)
        (yours if is_yours else others).append(row)
    return joined_rows(yours), joined_rows(others)


def joined_rows(rows: Iterable[Row]) -> list[Row]:
    """One row per key, newest first; the first row with a key gives title and address."""
    by_key: dict[tuple[str, int], Row] = {}
    for row in rows:
        by_key[row.key] = by_key[row.key].joined(row) if row.key in by_key else row
    return sorted(by_key.values(), key=lambda row: row.at, reverse=True)


def pull_row(pull: Pull, *reasons: str, state: State | None = None) -> Row:
    path = pull.repo.path
    return Row(
        key=("thread", pull.thread_id),
        number=pull.number,
        title=pull.thread.title,
        url=f"/{path}/pulls/{pull.number}",
        repo_name=short_path(path),
        at=pull.thread.last_activity_at,
        reasons=reasons,
        state=state,
    )


def awaiting_row(pull: Pull) -> Row:
    """The row of a pull that waits for the person's review."""
    author = pull.thread.created_by
    asker = getattr(pull, "asked_by", None) or named(author.username, author.is_bot)
    asks = f"{asker} requested your review"
    count = pull.changed_files
    if not count:
        return pull_row(pull, asks)
    row = pull_row(pull, asks, f"{count} file{'' if count == 1 else 's'}")
    return replace(row, stat=(pull.additions, pull.deletions))


def own_row(own: OwnPull) -> tuple[bool, Row]:
    """The row of a pull by the person, and whether it waits for the person."""
    pull = own.pull
    if problem := problem_of(own):
        reason, word = problem
        return True, pull_row(pull, "your pull", reason, state=("bad", "no", word))
    if pull.status == PullStatus.DRAFT:
        return False, pull_row(pull, "your draft", state=("wait", "wait", "draft"))
    reason, state = approval_of(own)
    names = [request.user.username for request in own.requests]
    further = (f"a review by {listed(names)} is requested",) if names else ()
    return state is READY, pull_row(pull, "your pull", reason, *further, state=state)


def problem_of(own: OwnPull) -> tuple[str, str] | None:
    """The reason why its author has to change the pull, with a short form."""
    pull = own.pull
    if own.missing_branch is not None:
        return f"there is no branch {own.missing_branch}", "branch missing"
    if pull.status == PullStatus.DRAFT:
        return None
    if people := own.approval.changes_requested_by:
        return f"{listed(people)} requested changes", "changes requested"
    if pull.has_conflict:
        return f"it conflicts with {pull.target_branch}", "conflict"
    if pull.has_conflict is False and pull.nothing_to_merge:
        return f"{pull.target_branch} already has all of its commits", "nothing to merge"
    failed = [name for name, state in own.checks.unmet.items() if state in FAILED]
    return (f"{listed(failed)} failed", "checks failed") if failed else None


def approval_of(own: OwnPull) -> tuple[str, State]:
    """The approvals and required statuses of a pull without a problem, and its state."""
    approval = own.approval
    if wanting := approval.wanting:
        pending = [user.username for user in approval.pending]
        have = "has" if len(pending) == 1 else "have"
        text = f"{listed(pending)} {have} not approved" if pending else "approvals are missing"
        return text, (
            "wait",
            "wait",
            f"{approval.required - wanting} of {approval.required} approvals",
        )
    if unmet := [*own.checks.unmet]:
        have = "has" if len(unmet) == 1 else "have"
        return f"{listed(unmet)} {have} not passed yet", ("wait", "wait", "checks pending")
    if own.unresolved:
        text = f"{own.unresolved} comment{'' if own.unresolved == 1 else 's'} on lines to resolve"
        return text, ("wait", "wait", "comments unresolved")
    given = "all approvals are in" if approval.required else "no approval is required"
    if not own.may_write:
        return given, ("wait", "wait", "to be merged")
    return given, READY if own.pull.has_conflict is False else CHECKING


def ended_row(pull: Pull) -> Row:
    """The row of a merged or closed pull by the person."""
    state = ENDED[pull.status == PullStatus.MERGED]
    return pull_row(pull, f"into {pull.target_branch}", state=state)


def listed(names: Sequence[str]) -> str:
    """`bob, carol and erin`; of more than four names the first three and a count of the rest."""
    first = [*names] if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return get_text_list(first, "and")


def named(username: str, is_bot: bool | None) -> str:
    """The name of a person, and whether it is a bot, as text."""
    return f"{username} (bot)" if is_bot else username


def title_of(record: dict[str, Any]) -> str:
    """The title of a ping whose event has no thread and no team."""
    if record["kind"] == Kind.TOKEN_EXPIRING:
        return str(record["data"]["name"])
    return "Webhook" if record["kind"] == Kind.WEBHOOK_DISABLED else "Gone"


def ping_row_of(ping: PingRow, record: dict[str, Any]) -> Row:
    """The row of a ping, from the record of its event."""
    event, summary, path = ping.event, record["summary"], record["repo_path"]
    actor = named(record["actor_user_username"] or "Guildhall", record["actor_user_is_bot"])
    return Row(
        key=("thread", event.thread_id) if event.thread_id else ("event", event.id),
        number=event.number,
        title=summary["thread_title"] or record["team_slug"] or title_of(record),
        url=summary["web_url"] or "",
        repo_name=short_path(path) if path else "",
        at=event.created_at,
        reasons=(f"{actor} {PING_WORDS.get(ping.kind, ping.kind)}",),
        pings=[ping],
    )
