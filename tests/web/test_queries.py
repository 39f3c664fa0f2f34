"""A page takes as many queries for many rows as for one, and starts no git."""

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, Invite
from apps.repos.models import Repo
from tests.test_queries import costing


def tokens(ada, count):
    ApiToken.objects.bulk_create(
        ApiToken(user=ada, name="t", digest=f"{count}-{n}") for n in range(count)
    )


def invites(ada, count):
    """Each accepted, so that somebody's name is shown."""
    later = timezone.now() + dt.timedelta(days=1)
    Invite.objects.bulk_create(
        Invite(created_by=ada, expires_at=later, accepted_at=later, accepted_by=ada)
        for _ in range(count)
    )


def repos(ada, count):
    Repo.objects.bulk_create(
        Repo(owner_user=ada, name="r", slug=f"r{count}-{n}", visibility="public")
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("path", "add", "most"),
    [("/settings/tokens", tokens, 4), ("/settings/invites", invites, 5), ("/", repos, 4)],
)
def test_a_list_costs_the_same_for_thirty_rows_as_for_one(visit, ada, path, add, most):
    ada.is_staff = True
    ada.save()
    person = visit(ada)
    person.get(path)
    costs = []
    for count in (1, 30):
        add(ada, count)
        with costing() as cost:
            person.get(path).gives()
        costs.append((cost.sql, cost.git))
    assert costs[0] == costs[1] and costs[0] <= (most, 0)
