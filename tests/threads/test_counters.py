"""After any sequence of replies and deletions, the stored counters equal a recount."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.threads import actions
from apps.threads.models import Reply, Thread
from apps.threads.queries import Participants, list_replies
from tests.principals import access_of

PEOPLE = 3
# Each move: the author of a reply and its parent (0: none), or None and a reply to delete.
MOVES = st.lists(
    st.tuples(st.booleans(), st.integers(0, PEOPLE - 1), st.integers(0, 12)), max_size=25
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=MOVES)
def test_counters_placeholders_and_order_equal_a_recount(make, team_repo, writers, moves):
    thread = make.thread(team_repo, by=writers[0])
    for is_reply, who, which in moves:
        live = list(thread.replies.live().order_by("number"))
        chosen = live[which % len(live)] if live and which else None
        if is_reply:
            make.reply(thread, by=writers[who], to=chosen)
        elif chosen is not None:
            actions.delete_reply(access=access_of(chosen.created_by, thread.repo), reply=chosen)
    assert stored(Thread.objects.get(pk=thread.pk)) == recounted(thread.pk)


def stored(thread: Thread) -> dict[str, Any]:
    return {
        "replies": thread.reply_count,
        "people": thread.participant_count,
        "last": thread.last_reply_number,
        "activity": thread.last_activity_at,
        "below": dict(thread.replies.values_list("number", "live_descendants")),
        "shown": [number for number, *_ in list_replies(thread)[0:99]],
        "listed": {row["username"]: row["reply_count"] for row in Participants(thread)[0:99]},
    }


def recounted(pk: int) -> dict[str, Any]:
    """The same counts from the rows and their parents, without paths or counters."""
    thread = Thread.objects.get(pk=pk)
    rows = list(thread.replies.select_related("created_by").order_by("number"))
    live = [row for row in rows if row.deleted_at is None]
    below = {row.number: 0 for row in rows}
    for row in live:
        for above in walk_up(row, rows):
            below[above.number] += 1
    writers = [row.created_by.username for row in live]
    author = thread.created_by.username
    return {
        "replies": len(live),
        "people": len({author, *writers}),
        "last": len(rows),
        "activity": max([thread.created_at, *(row.created_at for row in rows)]),
        "below": below,
        "shown": [row.number for row in walk_down(None, rows) if row in live or below[row.number]],
        "listed": {name: writers.count(name) for name in {author, *writers}},
    }


def walk_up(row: Reply, rows: list[Reply]) -> Iterator[Reply]:
    by_id = {row.pk: row for row in rows}
    while row.parent_id is not None:
        row = by_id[row.parent_id]
        yield row


def walk_down(above: int | None, rows: list[Reply]) -> Iterator[Reply]:
    for row in rows:
        if row.parent_id == above:
            yield row
            yield from walk_down(row.pk, rows)
