"""The API against its own description: what fits it is accepted, what does not is refused, and
every answer is one that is described. Schemathesis makes the requests up; each is rolled back.

All of it, as four sorts of people: `bin/test -m long tests/test_schemathesis.py`, on PostgreSQL
with `DATABASE_URL`. `FUZZ_SEEDS="1 2 3"` tries three seeds instead of one.
"""

from __future__ import annotations

import os

import pytest
from django.db import connection

from tests.routes import routed

OF_EVERYBODY = "POST /teams/{team_slug}/repos/{repo_slug}/threads"
pytestmark = pytest.mark.django_db

ALL = [one for one in routed() if one.path != "/tail-events"]
"""Not the stream, which WSGI has not got."""
SHORT = {
    "DELETE /teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies/{reply_number}",
    "GET /api-tokens",
    "GET /events",
    "POST /api-tokens",
    "POST /teams",
    "POST /teams/{team_slug}/members",
    "POST /teams/{team_slug}/repos/{repo_slug}/pulls/{number}/merge",
    "PUT /teams/{team_slug}/repos/{repo_slug}/pulls/{number}",
}
"""One of each sort, for CI: making requests up takes much longer than answering them."""
ON_BOTH = {
    "DELETE /teams/{team_slug}/repos/{repo_slug}/threads/{number}/replies/{reply_number}",
    "GET /events",
    "POST /teams/{team_slug}/members",
    "PUT /teams/{team_slug}/repos/{repo_slug}/pulls/{number}",
}
"""Those that CI tries on PostgreSQL as well, one of each method."""

WHO = ("anonymous", "stranger", "member", "staff")
SEEDS = [int(seed) for seed in os.environ.get("FUZZ_SEEDS", "1").split()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(one, marks=[] if str(one) in ON_BOTH else [pytest.mark.once])
        for one in ALL
        if str(one) in SHORT
    ],
    ids=str,
)
def test_the_api_does_what_it_says(operation, sample, db):
    from tests.fuzz import check

    # Most parts of a schema are tried by what is refused before a database is asked.
    covering = connection.vendor == "sqlite"
    check(operation, sample, "staff", seed=1, examples=3, covering=covering)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("identity", WHO[:3])
def test_the_api_says_the_same_to_everybody(identity, sample, db):
    from tests.fuzz import check

    [operation] = [one for one in ALL if str(one) == OF_EVERYBODY]
    check(operation, sample, identity, seed=1, examples=3, covering=False)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("identity", WHO)
def test_what_one_answer_names_the_next_request_may_use(identity, sample, db):
    from tests.fuzz import follow_links

    follow_links(sample, identity, seed=1, examples=2, steps=5)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("identity", WHO)
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_the_api_does_what_it_says_at_length(operation, identity, seed, sample, db):
    from tests.fuzz import check

    covering = seed == SEEDS[0]  # another seed would try the same parts again
    check(operation, sample, identity, seed=seed, examples=20, covering=covering)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("identity", WHO)
def test_long_conversations_hold_what_the_api_says(identity, seed, sample, db):
    from tests.fuzz import follow_links

    follow_links(sample, identity, seed=seed, examples=10, steps=50)
