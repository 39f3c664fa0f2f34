"""Off-boarding: `PUT /users/{username}/offboard`, `manage.py offboard`, the page of the admin."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.actions import create_token, reactivate_user
from apps.accounts.models import BrowserSession, Invite, User
from apps.core.errors import ApiError
from apps.teams.actions import add_member
from apps.teams.models import Member
from apps.threads.models import Thread
from config.offboarding import plan
from config.offboarding.actions import offboard
from config.offboarding.serializers import offboarding_record
from tests.factories import MemberFactory, TeamFactory, UserFactory
from tests.principals import principal_of, team_access_of
from tests.races import Aside, Outcome, at_once
from tests.web.page_client import PASSWORD, PageClient

PATH = "/users/bob/offboard"


@pytest.fixture
def bobs(make, acme, alice, bob, sam, api):
    """bob in the middle of his work: the last owner of zoo, an approver, with open pulls."""
    TeamFactory.create(slug="zoo", owner=bob)
    PageClient(bob).get("/settings").gives()
    own, shared = make.repo(bob, "own", by=bob), make.repo(acme, "api", by=alice)
    make.protection(shared, by=alice, branch="main", approver=bob)
    make.thread(own, by=bob, title="Mine")
    make.thread(shared, by=bob, title="Ours")
    make.pull(shared, by=bob)
    api(sam).put("/site-settings", signup_invite_creators="users").gives()
    Invite.objects.create(created_by=bob, expires_at="2100-01-01T00:00:00Z")
    return bob


def leave(client, **body):
    return client.put(PATH, **{"confirm": "bob", **body})


def test_a_dry_run_says_what_happens_and_changes_nothing(api, bobs, sam, events):
    with events():
        record = api(sam).put(PATH, dry_run=True).gives()
    assert record["dry_run"] is True and record["username"] == "bob"
    assert [token["name"] for token in record["tokens"]] == [
        token.name for token in bobs.tokens.order_by("pk")
    ]
    assert len(record["sessions"]) == len(record["invite_uuids"]) == 1
    assert [(team["slug"], team["role"], team["is_last_owner"]) for team in record["teams"]] == [
        ("acme", "member", False),
        ("zoo", "owner", True),
    ]
    [rule] = record["approver_rules"]
    assert (rule["repo_path"], rule["branch"]) == ("teams/acme/api", "main")
    assert rule["is_satisfiable"] is False
    assert record["repo_paths"] == ["users/bob/own"]
    assert [row["repo_path"] for row in record["open_pulls"]] == ["teams/acme/api"]
    assert [row["title"] for row in record["open_threads"]] == ["Ours", "Mine"]
    assert record["truncated"] == []
    api(bobs).get("/users/self").gives()


def test_everything_ends_in_one_call_and_nothing_is_lost(api, bobs, alice, sam, events):
    before = Thread.objects.count()
    client = PageClient(bobs)
    with events():
        leave(api(alice)).fails(403, "staff_required")
        assert "zoo" in leave(api(sam)).fails(409, "last_owner")
        assert "bob" in api(sam).put(PATH, successor="alice").fails(422, "validation_failed")
        leave(api(sam), successor="nobody").fails(422, "user_not_found")
        leave(api(sam), successor="bob").fails(422, "validation_failed")
        api(sam).put("/users/nobody/offboard", confirm="nobody").fails(404, "not_found")
    tokens = ["token-revoked"] * bobs.tokens.count()
    members = ["member-removed", "member-added", "member-removed"]
    with events("user-deactivated", *tokens, "invite-deleted", *members):
        record = leave(api(sam), successor="alice").gives()
    assert record["dry_run"] is False
    assert [team["successor_username"] for team in record["teams"]] == [None, "alice"]
    api(bobs).get("/users/self").fails(401, "invalid_token")
    assert not client.is_signed_in and not BrowserSession.objects.filter(user=bobs).exists()
    assert not bobs.memberships.exists() and not bobs.tokens.filter(revoked_at=None).exists()
    assert Member.objects.get(team__slug="zoo", user=alice).role == "owner"
    assert Thread.objects.count() == before
    assert api(sam).get("/users/bob/repos/own").gives()["slug"] == "own"


def test_repeating_it_changes_nothing(api, bobs, sam, events):
    leave(api(sam), successor="alice").gives()
    with events():
        record = leave(api(sam)).gives()
    assert (record["tokens"], record["teams"], record["sessions"]) == ([], [], [])
    assert record["open_pulls"], "they still wait for somebody"


def test_opening_the_account_again_brings_neither_tokens_nor_teams_nor_staff_back(api, make, sam):
    tess = make.with_token(UserFactory.create(username="tess", staff=True))
    offboard(principal=principal_of(sam), user=tess, confirm="tess")
    reactivate_user(principal=principal_of(sam), user=tess)
    api(tess).get("/users/self").fails(401, "invalid_token")
    assert api(sam).get("/users/tess").gives()["is_staff"] is False


def test_a_successor_who_is_a_member_becomes_owner(api, bobs, carol, sam, events):
    member = MemberFactory.create(team=bobs.memberships.get(role="owner").team, user=carol)
    leave(api(sam), successor="carol").gives()
    member.refresh_from_db()
    assert member.role == "owner"


def test_the_last_active_member_of_staff_stays(api, sam):
    api(sam).put("/users/sam/offboard", confirm="sam").fails(409, "invalid_transition")


def test_a_long_plan_says_which_lists_go_on(api, make, bob, sam, monkeypatch):
    repo = make.repo(bob, "own", by=bob)
    for _ in range(3):
        make.thread(repo, by=bob)
    monkeypatch.setattr(plan, "MOST", 2)
    rows = plan.plan_for(bob)
    assert rows.truncated == ["open_threads"]


def test_a_plan_takes_as_many_queries_for_many_rows(make, bobs, alice, acme):
    with CaptureQueriesContext(connection) as few:
        plan.plan_for(bobs)
    for _ in range(2):
        repo = make.repo(acme, by=alice)
        make.protection(repo, by=alice, branch="main", approver=bobs)
        make.thread(repo, by=bobs)
        make.pull(repo, by=bobs)
        make.repo(bobs, by=bobs)
        TeamFactory.create(owner=bobs)
    with CaptureQueriesContext(connection) as many:
        rows = plan.plan_for(bobs)
        offboarding_record(rows)
    assert len(rows.open_pulls) == len(rows.approver_rules) == len(rows.repos) == 3
    assert len(many) == len(few)


@pytest.mark.django_db(transaction=True)
def test_two_at_once_end_everything_once(api, acme, bob, sam, events):
    first, second = api(sam), api(sam)
    with events("user-deactivated", "token-revoked", "member-removed"):
        results = at_once(lambda: leave(first), lambda: leave(second))
    assert results == {(200, None): 2}


def race(act, user, sam):
    """Off-board the person in a transaction while `act` runs aside; its outcome."""
    outcomes = []
    aside = Aside(lambda: outcomes.append(Outcome(act)))
    with transaction.atomic():
        offboard(principal=principal_of(sam), user=user, confirm=user.username)
        aside.begin()
    aside.join(60)
    return outcomes[0]


@pytest.mark.django_db(transaction=True)
def test_staff_who_is_off_boarded_meanwhile_off_boards_nobody(bob, sam):
    """If two people off-board each other at once, the first remains, also if there are others."""
    tess = UserFactory.create(username="tess", staff=True)
    UserFactory.create(username="uma", staff=True)
    by_tess, stale = (User.objects.get(pk=user.pk) for user in (tess, sam))
    late = race(
        lambda: offboard(principal=principal_of(by_tess), user=stale, confirm="sam"), tess, sam
    )
    assert late.status == 401
    assert User.objects.get(pk=sam.pk).is_active


@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_created_meanwhile_is_refused(bob, sam):
    stale = User.objects.get(pk=bob.pk)
    made = race(lambda: create_token(principal=None, owner=stale, name="late"), bob, sam)
    assert made.status == 422
    assert not bob.tokens.filter(revoked_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_nobody_is_added_to_a_team_meanwhile(acme, alice, carol, sam):
    stale = User.objects.get(pk=carol.pk)
    access = team_access_of(alice, acme)
    added = race(lambda: add_member(access=access, user=stale, role="member"), carol, sam)
    assert added.status == 422
    assert not carol.memberships.exists()


@pytest.mark.django_db(transaction=True)
def test_a_sign_in_meanwhile_begins_no_session(bob, sam):
    bob.set_password(PASSWORD)
    bob.save()
    client = PageClient()
    race(lambda: client.sign_in("bob"), bob, sam)
    assert not client.is_signed_in and not BrowserSession.objects.exists()


def test_the_command_does_the_same(bobs, alice, capsys, events):
    with events():
        call_command("offboard", "bob", "--dry-run")
        with pytest.raises(CommandError, match="last owner of zoo"):
            call_command("offboard", "bob")
    assert "bob would be off-boarded." in capsys.readouterr().out
    call_command("offboard", "bob", "--successor", "alice")
    out = capsys.readouterr().out
    assert "bob is off-boarded." in out and "teams: acme, zoo (last owner)" in out
    assert not User.objects.get(pk=bobs.pk).is_active


def test_the_page_of_the_admin_does_the_same(bobs, alice, sam, events):
    staff, address = PageClient(sam), reverse("offboard", args=[bobs.pk])
    assert address in staff.get(reverse("admin:accounts_user_change", args=[bobs.pk])).html
    page = staff.get(address).gives()
    assert "the last owner" in page.text and "too few approvers" in page.text
    with events():
        PageClient(bobs).get(address).gives(302)
        assert "Type bob" in staff.post(address, confirm="bo", successor="alice").gives(422).text
        refused = staff.post(address, confirm="bob").gives(409)
    assert "zoo" in refused.text
    back = reverse("admin:accounts_user_change", args=[bobs.pk])
    staff.post(address, confirm="bob", successor="alice").redirects_to(back, 302)
    assert not User.objects.get(pk=bobs.pk).is_active


def test_an_error_leaves_everything_as_it_was(bobs, sam, events):
    with events(), pytest.raises(ApiError):
        offboard(principal=principal_of(sam), user=bobs, confirm="bob")
    assert bobs.tokens.filter(revoked_at=None).exists() and bobs.memberships.count() == 2
