"""PostgreSQL finds the rows of lists across repositories by indexes, also in large tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.repos.models import Repo, Visibility
from apps.threads.models import Thread
from tests import crowded
from tests.by_actions import MakeByActions
from tests.factories import UserFactory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL's own plans"),
]
REPOS, ROWS = 10_000, 40_000
LARGE = {"threads_thread", "pulls_pull", "repos_repo", "threads_reply", "pulls_review"}
LARGE |= {"repos_protection", "repos_approver"}
MOST = ROWS // 8
"""Maximum number of rows that one page may read."""
RARE = "pushes of herons"
"""A text in one title only, though each of its first words is in all titles."""
CALLERS = ("stranger", "crowd-777", "staff")
"""A reader of public rows only, a member of one team, and a reader of all rows."""
FILTERS = ["", "status=open", "status=open&status=closed", "created_by=crowd-6"]
FILTERS += ["created_by=stranger", "participant=crowd-6", "participant=stranger"]
FILTERS += ["participant=self", "team=crowd-778", "team=crowd-777&status=open", "search=slow"]
FILTERS += [f"search={RARE}", "search=zebra", "search=zz", "search=%2B%2B", "search=q%2B%2B"]
FILTERS += ["search=sl", "search=q", "before=1-" + "0" * 32, "after=1-" + "0" * 32]
FILTERS += ["created_by=self&search=pushes&status=open"]
OF_THREADS = ["kind=announcement", "kind=question", "priority=urgent", "priority=low"]
OF_PULLS = [f"awaiting_review_from={name}" for name in ("crowd-1", "crowd-778", "self")]
OF_PULLS += ["status=draft", "status=merged"]
CASES = [
    *(f"/threads?{filters}" for filters in FILTERS + OF_THREADS),
    *(
        f"/pulls?{filters}"
        for filters in FILTERS + OF_PULLS
        if filters != "status=open&status=closed"
    ),
]


@pytest.fixture(scope="module")
def people(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """The callers, with tokens, on a large site that is filled once."""
    with django_db_blocker.unblock(), transaction.atomic():
        crowded.fill(REPOS, ROWS)
        # Not before ANALYZE: it samples some titles, and takes the text of those for frequent.
        Thread.objects.filter(title="Slow pushes 30081").update(title=f"Slow {RARE}")
        make = MakeByActions()
        people = {
            "stranger": UserFactory.create(username="stranger"),
            "staff": UserFactory.create(username="staff", staff=True),
            "crowd-777": User.objects.get(username="crowd-777"),
        }
        for person in people.values():
            make.token(person)
        yield {"make": make, **people}
        transaction.set_rollback(True)


@pytest.fixture
def make(people: dict[str, Any]) -> Any:
    return people["make"]


@pytest.fixture(params=["none", "a few", "many"])
def public_repos(request: pytest.FixtureRequest, db: None, people: dict[str, Any]) -> str:
    """The number of public repositories."""
    each = {"none": 0, "a few": 200, "many": 7}[request.param]
    if each:
        some = Repo.objects.alias(rest=F("pk") % each).filter(rest=0)
        some.update(visibility=Visibility.INTERNAL)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE repos_repo")
    return str(request.param)


@pytest.mark.parametrize("caller", CALLERS)
def test_no_large_table_is_read_from_end_to_end(api, people, public_repos, caller):
    wrong = []
    for path in CASES:
        with CaptureQueriesContext(connection) as captured:
            page = api(people[caller]).get(path).gives()
        plans = [plan_of(query["sql"]) for query in captured.captured_queries]
        scanned = {one["Relation Name"] for plan in plans for one in nodes(plan) if is_scan(one)}
        read = sum(rows_read(one) for plan in plans for one in nodes(plan))
        if scanned & LARGE or read > MOST:
            wrong.append((path, len(page["results"]), scanned & LARGE, read))
    assert not wrong, "\n".join(map(str, wrong))


def plan_of(sql: str) -> dict[str, Any]:
    """The executed plan of a SELECT."""
    if not sql.lstrip("( ").startswith("SELECT"):
        return {}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}")
        answer = cursor.fetchone()[0]
    plan: dict[str, Any] = (orjson.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if plan:
        yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def is_scan(node: dict[str, Any]) -> bool:
    return bool(node["Node Type"] == "Seq Scan")


def rows_read(node: dict[str, Any]) -> int:
    """The rows of a table that a node of the plan read, including rows that it filtered out."""
    if "Relation Name" not in node:
        return 0
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return int(rows * node["Actual Loops"])
