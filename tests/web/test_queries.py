"""A page makes as many queries for many rows as for one, and starts no git."""

import datetime as dt

import pytest
from django.utils import timezone

from apps.accounts.models import Invite
from apps.pulls.actions import create_pull, create_review
from apps.repos.models import Repo
from apps.threads.actions import create_reply, create_thread
from tests.factories import ForkFactory, MemberFactory
from tests.principals import access_of
from tests.test_queries import costing


def thread(repo, name):
    return create_thread(access=access_of(repo.owner, repo), title="t", body="", kind="issue")


def reply(repo, name):
    found = repo.threads.first() or thread(repo, name)
    access, body = access_of(repo.owner, repo), f"#{name} @ada"
    create_reply(access=access, thread=found, kind="comment", body=body)


def pull(repo, name):
    branches = {"source_branch": f"b{name}", "target_branch": "m"}
    return create_pull(access=access_of(repo.owner, repo), title="t", body="", **branches)


def review(repo, name):
    found, access = repo.pulls.first() or pull(repo, name), access_of(repo.owner, repo)
    create_review(access=access, pull=found, status="commented", body="#1")


def protection(repo, name):
    """A protection with an approver and a matching branch."""
    made = repo.protections.create(branch=f"{name}/*", created_by=repo.owner)
    made.approvers.create(user=repo.owner)
    repo.refs.create(full_name=f"refs/heads/{name}/x", sha="1" * 40)


def invite(repo, name):
    """An accepted invite, which shows a name."""
    ada, later = repo.owner, timezone.now() + dt.timedelta(days=1)
    Invite.objects.create(created_by=ada, expires_at=later, accepted_at=later, accepted_by=ada)


def other_repo(repo, name):
    Repo.objects.create(owner_user=repo.owner, name="r", slug=f"r{name}", visibility="public")


@pytest.mark.parametrize(
    ("path", "add", "most"),
    [
        ("/users/ada/r/settings/protections", protection, 12),
        ("/users/ada/r/forks", lambda repo, name: ForkFactory.create(upstream=repo), 8),
        ("/new/repo", lambda repo, name: MemberFactory.create(user=repo.owner), 4),
        ("/users/ada/r/threads", thread, 8),
        ("/users/ada/r/threads/1", reply, 12),
        ("/users/ada/r/pulls", pull, 8),
        ("/users/ada/r/pulls/1", review, 18),
        ("/users/ada", other_repo, 8),
        ("/settings/tokens", lambda repo, name: repo.owner.tokens.create(digest=name), 5),
        ("/settings/invites", invite, 6),
        ("/", other_repo, 11),
    ],
)
def test_a_page_of_what_people_make_costs_the_same_for_thirty_as_for_two(
    visit, ada, path, add, most
):
    ada.is_staff = True
    ada.save()
    repo = Repo.objects.create(owner_user=ada, name="r", slug="r", visibility="public")
    person, costs = visit(ada), []
    for count in (2, 30):
        for n in range(count):
            add(repo, f"{count}-{n}")
        person.get(path).gives()
        with costing() as cost:
            person.get(path).gives()
        costs.append((cost.sql, cost.git))
    assert costs[0] == costs[1] and costs[0] <= (most, 0)
