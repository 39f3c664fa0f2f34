"""The bodies of threads, pulls, replies and reviews that events are about, for
`settings.EVENT_BODIES`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length

from apps.accounts.principal import Principal
from apps.core import markdown
from apps.events.bodies import Bodies, Written
from apps.events.kinds import Kind
from apps.events.models import EventRow
from apps.pulls.models import Review
from apps.repos.models import Repo
from apps.threads.models import Reply, Thread
from apps.threads.queries import named_replies
from apps.threads.references import Place, Text, places
from apps.threads.serializers import shown_replies

LONGEST = 32 * 1024
"""Characters of a body and of its HTML; of a longer one the event only says where it is."""
CREATED = {Kind.THREAD_CREATED, Kind.PULL_CREATED, Kind.REPLY_CREATED, Kind.REVIEW_CREATED}
OF_REPLIES = {Kind.REPLY_CREATED, Kind.REPLY_UPDATED, Kind.REPLY_DELETED}
"""The kinds that come with the whole reply, so that a page can show it as it is now."""
Places = Mapping[tuple[int, str], Place]


def event_bodies(
    events: Sequence[EventRow], principals: Collection[Principal], base: str, *, anew: bool
) -> dict[Principal, Bodies]:
    """See `EventBodies`. Those by whom a body was written have it, as it is now."""
    texts = _texts([event for event in events if _tells_of_a_body(event)])
    replies = _replies([event for event in events if event.kind in OF_REPLIES])
    found = places(texts.values(), base, Repo.objects.all())
    others = {place.repo for place in found.values() if place.repo is not None}
    seen = {one: _readable(one, others, anew=anew) for one in principals}
    shown = {
        readable: _written(_shown(texts, found, readable), replies)
        for readable in set(seen.values())
    }
    return {one: shown[readable] for one, readable in seen.items()}


def _written(html: Mapping[int, str], replies: Mapping[int, dict[str, Any]]) -> Bodies:
    """Each body with the record of its reply, if it is one."""
    ids = html.keys() | replies.keys()
    return {event: Written(html.get(event), replies.get(event)) for event in ids}


def _tells_of_a_body(event: EventRow) -> bool:
    wanted = event.kind in CREATED or event.kind in OF_REPLIES
    return wanted or "body" in event.data.get("changed", ())


def _replies(events: Sequence[EventRow]) -> dict[int, dict[str, Any]]:
    """The records of the replies that these events are about, as far as readers see them; two
    queries.
    """
    numbers = _numbers(events)
    found = shown_replies(numbers) if numbers else {}
    keys = ((event.id, (event.thread_id, event.target["number"])) for event in events)
    return {event: found[key] for event, key in keys if key in found}


def _numbers(events: Sequence[EventRow]) -> Mapping[int, set[int]]:
    """The numbers of the replies that these events are about, by the id of their thread."""
    numbers = defaultdict[int, set[int]](set)
    for event in events:
        if event.thread_id is not None:
            numbers[event.thread_id].add(event.target["number"])
    return numbers


def _readable(principal: Principal, repos: Collection[int], *, anew: bool) -> frozenset[int]:
    """Which of these repositories the principal may read now; no query for none."""
    if not repos:
        return frozenset()
    now = principal.renewed() if anew else principal
    if now is None:
        return frozenset()
    rows = Repo.objects.visible_to(now).filter(pk__in=repos)
    return frozenset(rows.values_list("pk", flat=True))


def _shown(texts: Mapping[int, Text], found: Places, readable: frozenset[int]) -> dict[int, str]:
    """These texts with the links that whoever may read these other repositories may follow."""
    addresses = defaultdict[int, dict[str, str]](dict)
    for (home, text), place in found.items():
        if place.repo is None or place.repo in readable:
            addresses[home][text] = place.address
    return {
        event: markdown.with_links(kept, addresses[repo.pk])
        for event, (repo, kept) in texts.items()
    }


def _texts(events: Sequence[EventRow]) -> dict[int, Text]:
    """What `markdown.render` made of each event's body, with its repository; a query for each sort
    of text, and one for the repositories.
    """
    kept = dict([*_of_threads(events), *_of_replies(events), *_of_reviews(events)])
    ids = {event.repo_id for event in events if event.id in kept and event.repo_id}
    rows = Repo.objects.select_related("owner_team", "owner_user").filter(pk__in=ids)
    repos: dict[int | None, Repo] = {repo.pk: repo for repo in rows} if ids else {}
    return {
        event.id: (repos[event.repo_id], kept[event.id])
        for event in events
        if event.id in kept and event.repo_id in repos
    }


def _of_threads(events: Sequence[EventRow]) -> Iterator[tuple[int, str]]:
    about = [event for event in events if event.target["kind"] in {"thread", "pull"}]
    ids = {event.thread_id for event in about if event.thread_id}
    known = _kept(Thread.objects.existing().filter(pk__in=ids), "pk") if ids else {}
    return ((event.id, known[key]) for event in about if (key := (event.thread_id,)) in known)


def _of_replies(events: Sequence[EventRow]) -> Iterator[tuple[int, str]]:
    about = [event for event in events if event.target["kind"] == "reply"]
    numbers = _numbers(about)
    rows = Reply.objects.live().filter(named_replies(numbers), thread__deleted_at=None)
    known = _kept(rows, "thread", "number") if numbers else {}
    keys = ((event.id, (event.thread_id, event.target["number"])) for event in about)
    return ((event, known[key]) for event, key in keys if key in known)


def _of_reviews(events: Sequence[EventRow]) -> Iterator[tuple[int, str]]:
    about = {
        event.id: (UUID(event.target["uuid"]),)
        for event in events
        if event.target["kind"] == "review"
    }
    uuids = {uuid for (uuid,) in about.values()}
    known = _kept(Review.objects.filter(uuid__in=uuids), "uuid") if uuids else {}
    return ((event, known[key]) for event, key in about.items() if key in known)


def _kept(rows: QuerySet[Any, Any], *key: str) -> dict[tuple[Any, ...], str]:
    """What `markdown.render` makes of the bodies of these rows that are not too long, by these
    columns.
    """
    size = rows.annotate(size=Length("body"), html_size=Length("body_html"))
    short = size.filter(size__gt=0, size__lte=LONGEST, html_size__lte=LONGEST)
    present = When(html_version=markdown.VERSION, then=Value("", TextField()))
    stale = Case(present, default=F("body"))
    found = {}
    for *values, kept, text in short.annotate(stale=stale).values_list(*key, "body_html", "stale"):
        kept = markdown.render(text) if text else kept
        if len(kept) <= LONGEST:
            found[tuple(values)] = kept
    return found
