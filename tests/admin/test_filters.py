"""Filters of the lists of the admin."""

from __future__ import annotations

import pytest

from apps.accounts import actions
from apps.accounts.models import User
from apps.events.models import Event
from apps.repos.actions import update_repo
from apps.repos.models import Repo
from apps.teams.models import Team
from apps.threads.models import Thread
from tests.admin.urls import admin_url
from tests.factories import TeamFactory
from tests.principals import access_of, principal_of


@pytest.fixture
def shown(staff):
    """`shown(User, "staff=others")` are the names of the rows in that list."""

    def rows(model, question):
        page = staff.get(f"{admin_url(model)}?{question}").gives()
        return {str(row) for row in page.response.context["cl"].result_list}

    return rows


def test_a_filter_by_yes_or_no_shows_the_one_or_the_other(shown, make, sam, alice, bob):
    actions.deactivate_user(principal=principal_of(sam), user=bob)
    assert shown(User, "account=active") == {"alice", "sam"}
    assert shown(User, "account=deactivated") == {"bob"}
    assert (shown(User, "staff=staff"), shown(User, "staff=others")) == ({"sam"}, {"alice", "bob"})
    Team.objects.filter(pk=TeamFactory.create(slug="old", owner=alice).pk).update(is_active=False)
    core = TeamFactory.create(slug="core", owner=alice)
    assert shown(Team, "state=active") == {"teams/core"}
    assert shown(Team, "state=inactive") == {"teams/old"}
    update_repo(access=access_of(sam, make.repo(core, "shelf", by=alice)), is_archived=True)
    make.repo(core, "desk", by=alice)
    assert shown(Repo, "state=open") == {"teams/core/desk"}
    assert shown(Repo, "state=archived") == {"teams/core/shelf"}


def test_a_filter_by_a_choice_shows_the_rows_that_have_it(shown, make, alice):
    core = TeamFactory.create(slug="core", owner=alice)
    repo = make.repo(core, "api", by=alice, visibility="public")
    make.repo(core, "vault", by=alice)
    assert shown(Repo, "visibility=public") == {"teams/core/api"}
    assert shown(Repo, "visibility=private") == {"teams/core/vault"}
    assert shown(Repo, "visibility=none") == {"teams/core/api", "teams/core/vault"}
    make.thread(repo, by=alice, status="closed")
    assert len(shown(Thread, "status=closed")) == 1 and not shown(Thread, "status=open")
    assert len(shown(Event, "kind=thread-created")) == 1
