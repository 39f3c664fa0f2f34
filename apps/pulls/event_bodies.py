"""The bodies of the threads, pulls, replies and reviews of events (`settings.EVENT_BODIES`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length

from apps.accounts.principal import Principal
from apps.core import markdown
from apps.events.frames import Bodies, EventBody
from apps.events.kinds import Kind
from apps.events.models import EventRow
from apps.pulls.models import Review
from apps.repos.models import Repo
from apps.threads.models import Reply, Thread
from apps.threads.queries import named_replies
from apps.threads.references import LinkTarget, Text, link_targets
from apps.threads.serializers import shown_replies

LONGEST = 32 * 1024
"""Most characters of a body, and of its HTML. For a longer body, events only have its address."""
CREATED = {Kind.THREAD_CREATED, Kind.PULL_CREATED, Kind.REPLY_CREATED, Kind.REVIEW_CREATED}
OF_REPLIES = {Kind.REPLY_CREATED, Kind.REPLY_UPDATED, Kind.REPLY_DELETED}
"""The kinds that include the reply's record, so that pages can show its current state."""
LinkTargets = Mapping[tuple[int, str], LinkTarget]


def event_bodies(
    events: Sequence[EventRow], principals: Collection[Principal], base: str, *, renew: bool
) -> dict[Principal, Bodies]:
    """See `EventBodies`. Events about a body have its current HTML."""
    texts = _texts([event for event in events if _has_body(event)])
    replies = _replies([event for event in events if event.kind in OF_REPLIES])
    targets = link_targets(texts.values(), base, Repo.objects.all())
    others = {target.repo_id for target in targets.values() if target.repo_id is not None}
    readable = {principal: _readable(principal, others, renew=renew) for principal in principals}
    bodies = {
        repos: _written(_with_links(texts, targets, repos), replies)
        for repos in set(readable.values())
    }
    return {principal: bodies[repos] for principal, repos in readable.items()}


def _written(html: Mapping[int, str], replies: Mapping[int, dict[str, Any]]) -> Bodies:
    ids = html.keys() | replies.keys()
    return {event: EventBody(html.get(event), replies.get(event)) for event in ids}


def _has_body(event: EventRow) -> bool:
    is_kind = event.kind in CREATED or event.kind in OF_REPLIES
    return is_kind or "body" in event.data.get("changed", ())


def _replies(events: Sequence[EventRow]) -> dict[int, dict[str, Any]]:
    """Event's id -> the record of its reply, if readers can see it; two queries."""
    numbers = _numbers(events)
    records = shown_replies(numbers) if numbers else {}
    keys = ((event.id, (event.thread_id, event.target["number"])) for event in events)
    return {event: records[key] for event, key in keys if key in records}


def _numbers(events: Sequence[EventRow]) -> Mapping[int, set[int]]:
    """Thread's id -> the numbers of the replies of these events."""
    numbers = defaultdict[int, set[int]](set)
    for event in events:
        if event.thread_id is not None:
            numbers[event.thread_id].add(event.target["number"])
    return numbers


def _readable(principal: Principal, repos: Collection[int], *, renew: bool) -> frozenset[int]:
    """The repositories among these that the principal, read again if `renew`, may read."""
    if not repos:
        return frozenset()
    now = principal.renewed() if renew else principal
    if now is None:
        return frozenset()
    rows = Repo.objects.visible_to(now).filter(pk__in=repos)
    return frozenset(rows.values_list("pk", flat=True))


def _with_links(
    texts: Mapping[int, Text], targets: LinkTargets, readable: frozenset[int]
) -> dict[int, str]:
    """These texts with their links, without links to repositories that are not readable."""
    urls = defaultdict[int, dict[str, str]](dict)
    for (home, reference), target in targets.items():
        if target.repo_id is None or target.repo_id in readable:
            urls[home][reference] = target.url
    return {
        event: markdown.with_links(html, urls[repo.pk]) for event, (repo, html) in texts.items()
    }


def _texts(events: Sequence[EventRow]) -> dict[int, Text]:
    """Event's id -> the repository and the stored HTML of its body."""
    html_of = _of_threads(events) | _of_replies(events) | _of_reviews(events)
    ids = {event.repo_id for event in events if event.id in html_of and event.repo_id}
    rows = Repo.objects.select_related("owner_team", "owner_user").filter(pk__in=ids)
    repos: dict[int | None, Repo] = {repo.pk: repo for repo in rows} if ids else {}
    return {
        event.id: (repos[event.repo_id], html_of[event.id])
        for event in events
        if event.id in html_of and event.repo_id in repos
    }


def _of_threads(events: Sequence[EventRow]) -> dict[int, str]:
    about = [event for event in events if event.target["kind"] in {"thread", "pull"}]
    keys = {event.id: (event.thread_id,) for event in about if event.thread_id}
    ids = {pk for (pk,) in keys.values()}
    return _stored_html(keys, Thread.objects.existing().filter(pk__in=ids), "pk")


def _of_replies(events: Sequence[EventRow]) -> dict[int, str]:
    about = [event for event in events if event.target["kind"] == "reply" and event.thread_id]
    keys = {event.id: (event.thread_id, event.target["number"]) for event in about}
    rows = Reply.objects.live().filter(named_replies(_numbers(about)), thread__deleted_at=None)
    return _stored_html(keys, rows, "thread", "number")


def _of_reviews(events: Sequence[EventRow]) -> dict[int, str]:
    about = [event for event in events if event.target["kind"] == "review"]
    keys = {event.id: (UUID(event.target["uuid"]),) for event in about}
    uuids = {uuid for (uuid,) in keys.values()}
    return _stored_html(keys, Review.objects.filter(uuid__in=uuids), "uuid")


def _stored_html(
    keys: Mapping[int, tuple[Any, ...]], rows: QuerySet[Any, Any], *columns: str
) -> dict[int, str]:
    """Event's id -> the HTML of the row of which these columns are its key, rendered again if it is
    from an older renderer; without bodies that are too long.
    """
    if not keys:
        return {}
    size = rows.annotate(size=Length("body"), html_size=Length("body_html"))
    short = size.filter(size__gt=0, size__lte=LONGEST, html_size__lte=LONGEST)
    is_current = When(html_version=markdown.VERSION, then=Value("", TextField()))
    stale = Case(is_current, default=F("body"))
    html_of = {}
    for *values, html, body in short.annotate(stale=stale).values_list(
        *columns, "body_html", "stale"
    ):
        html = markdown.render(body) if body else html
        if len(html) <= LONGEST:
            html_of[tuple(values)] = html
    return {event: html_of[key] for event, key in keys.items() if key in html_of}
