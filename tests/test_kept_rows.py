"""Lists that are put together once, for all requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import QuerySet

from apps.pulls.models import pull_rows
from apps.threads.models import reply_rows, thread_rows

KEPT: tuple[Callable[[], QuerySet[Any, Any]], ...] = (thread_rows, reply_rows, pull_rows)
FILTERS = ("status=open", "kind=issue", "priority=low", "created_by=bob", "search=x")


def state() -> list[Any]:
    """Also the lists of tables, which a filtered copy shares with what it is a copy of."""
    return [
        (rows()._result_cache, str(rows().query), repr(rows().query.table_map)) for rows in KEPT
    ]


@pytest.mark.parametrize("path", ["threads", "threads/1", "threads/1/replies", "pulls"])
def test_no_request_leaves_anything_in_what_is_kept_for_the_next(api, make, team_repo, bob, path):
    make.reply(make.thread(team_repo, by=bob), by=bob)
    make.pull(team_repo, by=bob)
    before = state()
    for query in ("", *FILTERS, "&".join(FILTERS)):
        api(bob).get(f"{team_repo.api_path}/{path}?{query}").gives()
    assert state() == before
