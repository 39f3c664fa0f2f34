"""Each POST of `permissions.csv`, sent twice with one key, is done once and answered twice."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.core.access import Level
from apps.events.models import Event
from apps.idempotency.models import KeyedRequest
from apps.pulls.draft_reviews import DraftComment
from apps.repos.models import Fork
from apps.site import limits
from apps.uploads.models import Upload
from apps.webhooks.models import Delivery
from tests import snapshot
from tests.dying import dying_at
from tests.permission_cases import CELLS, PEOPLE, Cell, PermissionCase
from tests.routes import routed
from tests.sample_data import everything
from tests.test_permissions import undone
from tests.test_queries import COUNTS, costing, name_of, typical

pytestmark = pytest.mark.once

POSTS = [cell for cell in typical(CELLS) if cell.operation.startswith("POST")]
SENT = ("/ping", "/redeliver")
"""The ends of operations that send a request to a receiver. No transaction can take that back."""
SUGGESTING = ("/apply", "/apply-suggestions")
KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}


@pytest.fixture(params=POSTS, ids=name_of)
def cell(request) -> Cell:
    """A row of the table, with a person who has access."""
    row: Cell = request.param
    return row


@pytest.fixture
def post(cell, sample, db, tmp_path_factory):
    """Sends the request of that row with a key."""
    limits.limit_cache.get()  # as before any request but the first
    method, path = PermissionCase(cell, sample, tmp_path_factory).request()
    api = sample.api(PEOPLE[cell.who])
    ApiToken.objects.update(last_used_at=timezone.now())  # `last_used_at` is written once a minute
    return lambda: api.send(method, path, cell.body, KEY)


NO_EVENT = (Fork, Upload, Delivery, DraftComment)
"""Rows whose creation has no event."""


def told():
    """The number of events of each kind, and of rows that have no event."""
    counted = Counter(Event.objects.values_list("kind", flat=True))
    return counted + Counter({model: model.objects.count() for model in NO_EVENT})


def time_passes():
    """Let the lease of the request expire."""
    KeyedRequest.objects.update(leased_until=timezone.now())


def test_each_post_has_a_row_and_needs_a_person():
    posts = [route for route in routed() if route.method == "POST"]
    assert {route.operation.level for route in posts} & {Level.PUBLIC} == set()
    rows = {re.sub(r"/\{owner\}", "/teams/{team_slug}", cell.operation) for cell in POSTS}
    assert {str(route) for route in posts if "/users/{" not in route.path} == rows


def test_it_is_done_once_and_answered_twice(post, cell):
    before = told()
    first = post()
    assert first.status in {200, 201}, first.json
    most = 3 if cell.operation.endswith(SUGGESTING) else 2
    assert 1 <= sum((told() - before).values()) <= most, "pushes have several events"
    assert "Idempotency-Replayed" not in first.response.headers

    after = everything()
    again = post()
    assert (again.status, again.response.content) == (first.status, first.response.content)
    assert again.header("Idempotency-Replayed") == "true"
    headers = {**first.response.headers, "Idempotency-Replayed": "true"}
    of_each = again.response.headers["X-Request-Id"]
    assert {**again.response.headers} == {**headers, "X-Request-Id": of_each}
    assert everything() == after


def test_nothing_has_happened_when_its_answer_could_not_be_kept(post, cell):
    """The process dies when it stores the answer, the last statement before the commit. A request
    that was sent to a receiver stays in the log.
    """
    before = everything()
    with dying_at('UPDATE "idempotency_keyedrequest" SET "answer"') as death:
        post()
    assert death.came
    after = everything()
    assert len(after.pop("KeyedRequest")) == 1
    if cell.operation.endswith(SENT):
        assert len(after.pop("Delivery")) == len(before["Delivery"]) + 1
    leases, steps = len(after.pop("MergeAttempt")), len(after.pop("PushJournal"))
    assert leases <= steps <= 1
    assert after == {name: before[name] for name in after}

    post().fails(409, "idempotency_in_progress")
    time_passes()
    assert leases or post().status == 201, "tests/pulls/test_dying_merges.py goes on from here"


@pytest.mark.slow
def test_wherever_its_process_dies_it_happens_once(post, cell):
    """The process dies at each statement in turn. tests/pulls/test_dying_merges.py does this for
    merges, and test_suggestions.py beside it for suggestions. A request to a receiver may be sent
    twice.
    """
    if cell.operation.endswith((*SUGGESTING, "/merge", *SENT)):
        return
    before = told()
    with undone():
        post()
        once = told() - before
    for last in count(1):
        with undone():
            with dying_at(last) as death:
                post()
            time_passes()
            assert post().status == 201
            assert told() - before == once, f"it died at statement {last}"
        if not death.came:
            break
    assert last > 8


def test_a_key_costs_four_statements_and_an_answer_that_is_kept_two(post, cell):
    usual = snapshot.read(COUNTS)[name_of(cell)]
    with costing() as first:
        post()
    assert str(first) == re.sub(r"\d+", lambda match: str(int(match[0]) + 4), usual, count=1)
    with CaptureQueriesContext(connection) as again:
        post()
    texts = [query["sql"] for query in again if KeyedRequest._meta.db_table in query["sql"]]
    assert [sql.split()[0] for sql in texts] == ["INSERT", "SELECT"]
    assert len(again) < first.sql
