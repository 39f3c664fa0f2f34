"""A page makes as many queries for many rows as for one, and starts no git."""

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken, Invite
from apps.pulls.actions import create_pull, create_review
from apps.pulls.models import Pull
from apps.repos.models import Repo
from apps.threads.actions import create_reply, create_thread
from apps.threads.models import Thread
from tests.factories import ForkFactory, MemberFactory
from tests.principals import access_of
from tests.test_queries import costing


def tokens(ada, count):
    ApiToken.objects.bulk_create(
        ApiToken(user=ada, name="t", digest=f"{count}-{n}") for n in range(count)
    )


def invites(ada, count):
    """Accepted invites, which show a name."""
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


def threads(ada, count):
    repo = Repo.objects.get_or_create(owner_user=ada, name="r", slug="r", visibility="public")[0]
    access = access_of(ada, repo)
    for _ in range(count):
        create_thread(access=access, title="t", body="", kind="issue")


def replies(ada, count):
    if not Repo.objects.exists():
        threads(ada, 1)
    thread = Thread.objects.get()
    for n in range(count):
        body = f"#{n} @ada"
        create_reply(access=access_of(ada, thread.repo), thread=thread, kind="comment", body=body)


def pulls(ada, count):
    repo = Repo.objects.get_or_create(owner_user=ada, name="r", slug="r", visibility="public")[0]
    for n in range(count):
        create_pull(
            access=access_of(ada, repo),
            title="t",
            body="",
            source_branch=f"b{n}",
            target_branch="m",
        )


def reviews(ada, count):
    if not Repo.objects.exists():
        pulls(ada, 1)
    pull = Pull.objects.get()
    for _ in range(count):
        create_review(access=access_of(ada, pull.repo), pull=pull, status="commented", body="#1")


def protections(ada, count):
    """Protections with an approver and a matching branch."""
    repo = Repo.objects.get_or_create(owner_user=ada, name="r", slug="r", visibility="public")[0]
    for n in range(count):
        protection = repo.protections.create(branch=f"{count}-{n}/*", created_by=ada)
        protection.approvers.create(user=ada)
        repo.refs.create(full_name=f"refs/heads/{count}-{n}/x", sha="1" * 40)


def forks(ada, count):
    repo = Repo.objects.get_or_create(owner_user=ada, name="r", slug="r", visibility="public")[0]
    for _ in range(count):
        ForkFactory.create(upstream=repo)


def own_teams(ada, count):
    for _ in range(count):
        MemberFactory.create(user=ada)


@pytest.mark.parametrize(
    ("path", "add", "most"),
    [
        ("/users/ada/r/settings/protections", protections, 12),
        ("/users/ada/r/forks", forks, 8),
        ("/new/repo", own_teams, 4),
        ("/users/ada/r/threads", threads, 8),
        ("/users/ada/r/threads/1", replies, 12),
        ("/users/ada/r/pulls", pulls, 8),
        ("/users/ada/r/pulls/1", reviews, 12),
        ("/users/ada", repos, 8),
        ("/settings/tokens", tokens, 5),
        ("/settings/invites", invites, 6),
        ("/", repos, 11),
    ],
)
def test_a_page_of_what_people_make_costs_the_same_for_thirty_as_for_two(
    visit, ada, path, add, most
):
    ada.is_staff = True
    ada.save()
    person = visit(ada)
    costs = []
    for count in (2, 30):
        add(ada, count)
        person.get(path).gives()
        with costing() as cost:
            person.get(path).gives()
        costs.append((cost.sql, cost.git))
    assert costs[0] == costs[1] and costs[0] <= (most, 0)
