"""Lists take as many queries for six rows as for two, and none counts its whole table."""

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actions import create_invite
from apps.accounts.models import Deletion
from apps.core.admin import CappedPaginator
from apps.core.durations import parse_future
from apps.repos.actions import add_approver
from apps.site.actions import create_rate_limit
from apps.site.models import RateLimit, SiteSettings
from tests.admin.urls import admin_url, registered, row_url
from tests.factories import ApiTokenFactory, ForkFactory, MemberFactory, TeamFactory, UserFactory
from tests.principals import access_of, principal_of
from tests.test_queries import costing, webhook_by
from tests.web.page_client import PageClient

ROWS: list[Any] = [model for model in registered() if model is not SiteSettings]


def one_of_each(make, sam, number):
    """One more row for each list, each with another person, team and repository."""
    person = UserFactory.create(username=f"person{number}", email=f"p{number}@example.org")
    ApiTokenFactory.create(user=person)
    team = TeamFactory.create(slug=f"team{number}", owner=person)
    repo = make.repo(team if number % 2 else person, f"repo{number}", by=person)
    make.protection(repo, by=person, approver=person)
    make.reply(make.thread(repo, by=person), by=person)
    ForkFactory.create(upstream=repo, owner=sam, created_by=person)
    create_invite(
        principal=principal_of(person if person.is_staff else sam), expires_at=parse_future("1 day")
    )
    webhook_by(person, **({"repo": repo} if number % 2 else {"team": team}))
    Deletion.begin(f"teams/gone{number}", person)
    create_rate_limit(
        principal=principal_of(sam), scope=f"user:{person}", max_requests=1, window_seconds=60
    )


def test_six_rows_cost_no_more_queries_than_two(make, sam):
    staff = PageClient(sam)
    costs: list[dict[str, int]] = []
    for numbers in (range(2), range(2, 6)):
        for number in numbers:
            one_of_each(make, sam, number)
        found = {}
        staff.get(admin_url(RateLimit))  # changed limits are read again
        for model in ROWS:
            with costing() as cost:
                page = staff.get(admin_url(model)).gives()
            assert page.html.count("field-") >= model.objects.count() > max(numbers)
            found[model.__name__] = cost.sql
        costs.append(found)
    assert costs[0] == costs[1]
    assert max(costs[0].values()) <= 7


def test_a_page_costs_no_more_with_more_below_it(make, sam, alice, acme):
    staff, counts = PageClient(sam), []
    repo = make.repo(acme, by=alice)
    rows = [acme, repo, make.protection(repo, by=alice)]
    for row in rows:
        staff.get(row_url(row)).gives()
    for number in (1, 5):
        for turn in range(number):
            person = UserFactory.create(username=f"person{number}-{turn}")
            MemberFactory.create(team=acme, user=person)
            make.protection(repo, f"b{number}-{turn}", by=alice)
            add_approver(access=access_of(alice, rows[2].repo), protection=rows[2], user=person)
        with costing() as cost:
            for row in rows:
                staff.get(row_url(row)).gives()
        counts.append(cost.sql)
    assert counts[0] == counts[1]


def test_a_list_is_counted_no_further_than_it_is_shown(make, sam, monkeypatch):
    for number in range(4):
        one_of_each(make, sam, number)
    monkeypatch.setattr(CappedPaginator, "rows_max", 3)
    staff = PageClient(sam)
    for model in ROWS:
        with CaptureQueriesContext(connection) as captured:
            page = staff.get(admin_url(model)).gives()
        counts = [one["sql"] for one in captured.captured_queries if "COUNT(*)" in one["sql"]]
        assert counts and all("LIMIT 3" in one for one in counts), model
        assert "The first 3; search or filter" in page.text, model
