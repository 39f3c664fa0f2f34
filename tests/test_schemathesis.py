"""The API against its own description: what fits it is accepted, what does not is refused, and
every answer is one that is described. Schemathesis makes the requests up; each is rolled back.
"""

from __future__ import annotations

import pytest

from tests.routes import routed

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
    "PUT /teams/{team_slug}/repos/{repo_slug}",
    "PUT /teams/{team_slug}/repos/{repo_slug}/pulls/{number}",
}
"""One of each sort, for CI: making requests up takes much longer than answering them."""


@pytest.mark.slow
@pytest.mark.parametrize("operation", [one for one in ALL if str(one) in SHORT], ids=str)
def test_the_api_does_what_it_says(operation, sample, db):
    from tests.fuzz import check

    check(operation, sample, seed=1, examples=3)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_the_api_does_what_it_says_at_length(operation, seed, sample, db):
    from tests.fuzz import check

    check(operation, sample, seed=seed, examples=50)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_one_answer_names_the_next_request_may_use(seed, sample, db):
    from tests.fuzz import follow_links

    token = sample.make.token(sample.people["sam"])
    follow_links(token, seed=seed, examples=50)
