"""The reasons for pings: mentions, replies, review requests, and being added to a team."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.events.models import Ping
from apps.pulls import actions as pulls
from apps.repos import mentions
from apps.repos.actions import add_approver, create_protection
from apps.teams import actions as teams
from apps.threads import actions as threads
from tests.factories import MemberFactory, UserFactory
from tests.principals import access_of, team_access_of
from tests.test_queries import costing


@pytest.fixture(autouse=True)
def everybody(alice, bob, carol, team_repo):
    """alice and bob, members of acme with `team_repo`; carol, a stranger; vera, a viewer."""
    vera = UserFactory.create(username="Vera")
    MemberFactory.create(team=team_repo.owner_team, user=vera, viewer=True)
    return vera


def new_pings():
    """The people pinged since the last call, with the reasons."""
    reasons = {f"{row.user.username} {row.kind}" for row in Ping.objects.select_related("user")}
    Ping.objects.update(kind="seen")
    return {reason for reason in reasons if not reason.endswith(" seen")}


EVERYBODY = "@bob, @VERA and @carol; @nobody, `@alice`, and @alice herself"


def test_a_new_text_pings_the_readers_whom_it_mentions(make, team_repo, alice, bob):
    thread = make.thread(team_repo, by=alice, body=EVERYBODY)
    assert new_pings() == {"bob mention", "Vera mention"}
    make.reply(thread, by=alice, body=EVERYBODY)
    assert new_pings() == {"bob mention", "Vera mention"}
    pull = make.pull(team_repo, by=alice, body=EVERYBODY)
    assert new_pings() == {"bob mention", "Vera mention"}
    make.review(pull, by=alice, body=EVERYBODY)
    assert new_pings() == {"bob mention", "Vera mention"}
    make.thread(team_repo, by=alice, body="```\n@bob\n```\nnobody@bob.example")
    assert not new_pings()


def test_a_mention_asks_whether_each_person_may_read(make, team_repo, alice, bob, carol, sam):
    UserFactory.create(username="gone", inactive=True)
    names = "@carol @sam @gone @bob"
    make.thread(team_repo, by=alice, body=names)
    assert new_pings() == {"sam mention", "bob mention"}
    own = make.repo(alice, "own", by=alice)
    make.thread(own, by=alice, body=names)
    assert new_pings() == {"sam mention"}
    public = make.repo(alice, "public", by=alice, visibility="internal")
    make.thread(public, by=bob, body=f"{names} @alice")
    assert new_pings() == {"sam mention", "alice mention", "carol mention"}


def test_the_number_of_names_costs_no_query(make, team_repo, alice):
    costs = []
    for count in (1, 20):
        people = UserFactory.create_batch(count)
        for person in people:
            MemberFactory.create(team=team_repo.owner_team, user=person)
        body = " ".join(f"@{person.username}" for person in people)
        with costing() as cost:
            make.thread(team_repo, by=alice, body=body)
        costs.append(cost.sql)
        assert len(new_pings()) == count
    assert costs[0] == costs[1]


def test_a_text_with_too_many_names_pings_nobody_by_them(make, team_repo, alice, bob, monkeypatch):
    monkeypatch.setattr(mentions, "MENTIONS_MAX", 2)
    thread = make.thread(team_repo, by=bob, body="@alice @vera @bob")
    assert not new_pings()
    make.reply(thread, by=alice, body="@alice @vera @carol")
    assert new_pings() == {"bob reply"}
    make.thread(team_repo, by=bob, body="@alice @vera")
    assert new_pings() == {"alice mention", "Vera mention"}


def test_fifty_names_ping_and_fifty_one_do_not(make, team_repo, alice, bob):
    """References of other kinds do not count."""
    people = UserFactory.create_batch(50)
    for person in people:
        MemberFactory.create(team=team_repo.owner_team, user=person)
    names, others = (
        " ".join(words)
        for words in ((f"@{person.username}" for person in people), (f"#{n}" for n in range(1, 80)))
    )
    make.thread(team_repo, by=alice, body=f"{others} {names}")
    assert len(new_pings()) == 50
    make.thread(team_repo, by=alice, body=f"{others} {names} @bob")
    assert not new_pings()


def test_an_edit_pings_those_whom_the_text_has_not_mentioned_before(make, team_repo, alice, bob):
    thread = make.thread(team_repo, by=alice, body="@bob")
    reply = make.reply(thread, by=bob, body="Hm.")
    pull = make.pull(team_repo, by=alice, body="Hm.")
    review = make.review(pull, by=bob, body="Hm.")
    new_pings()
    by, bobs = access_of(alice, team_repo), access_of(bob, team_repo)
    threads.update_thread(access=by, thread=thread, body="@bob and @vera")
    assert new_pings() == {"Vera mention"}
    threads.update_thread(access=by, thread=thread, title="@bob", body="@bob")
    threads.update_thread(access=by, thread=thread, body="nobody")
    assert not new_pings()
    threads.update_reply(access=bobs, reply=reply, body="@vera @bob")
    assert new_pings() == {"Vera mention"}
    pulls.update_pull(access=by, pull=pull, body="@vera")
    assert new_pings() == {"Vera mention"}
    pulls.update_review(access=bobs, review=review, body="@vera")
    assert new_pings() == {"Vera mention"}
    threads.update_reply(access=bobs, reply=reply, status="resolved")
    assert not new_pings()


def test_whom_a_text_has_pinged_it_does_not_ping_again(make, team_repo, alice, bob):
    by = access_of(alice, team_repo)
    thread = make.thread(team_repo, by=alice, body="@bob")
    reply = make.reply(thread, by=alice, body="@bob")
    for body in ("nobody", "@bob", "@bob again"):
        threads.update_thread(access=by, thread=thread, body=body)
        threads.update_reply(access=by, reply=reply, body=body)
    assert Ping.objects.count() == 2
    make.reply(thread, by=alice, body="@bob")
    assert Ping.objects.count() == 3


def test_a_reply_pings_the_author_of_the_thread_and_of_what_it_answers(
    make, team_repo, alice, bob, everybody
):
    vera = everybody
    thread = make.thread(team_repo, by=alice)
    first = make.reply(thread, by=bob)
    assert new_pings() == {"alice reply"}
    second = make.reply(thread, by=vera, to=first)
    assert new_pings() == {"alice reply", "bob reply"}
    make.reply(thread, by=alice, to=second, body="@bob @vera")
    assert new_pings() == {"bob mention", "Vera mention"}
    make.reply(thread, by=alice)
    assert not new_pings()


def test_who_may_not_read_any_more_is_not_pinged_by_replies(make, team_repo, alice, bob, acme):
    thread = make.thread(team_repo, by=bob)
    acme.members.filter(user=bob).delete()
    make.reply(thread, by=alice)
    assert not new_pings()


def asking(repo, alice, *approvers, branch="main"):
    made = create_protection(access=access_of(alice, repo), branch=branch)
    for person in approvers:
        add_approver(access=access_of(alice, made.repo), protection=made, user=person)


def test_a_pull_that_opens_asks_its_approvers(make, team_repo, alice, bob, everybody, acme):
    vera = everybody
    asking(team_repo, alice, alice, bob)
    asking(team_repo, alice, vera, bob, branch="m*")
    asking(team_repo, alice, branch="mai*")
    new_pings()
    make.pull(team_repo, by=alice, source="other", target="elsewhere")
    assert not new_pings()
    acme.members.filter(user=vera).delete()
    pull = make.pull(team_repo, by=alice, body="@bob")
    assert new_pings() == {"bob mention"}
    by = access_of(alice, team_repo)
    for status, pinged in (
        ("draft", set()),
        ("open", {"bob review_requested"}),
        ("closed", set()),
        ("open", {"bob review_requested"}),
    ):
        pulls.update_pull(access=by, pull=pull, status=status)
        assert new_pings() == pinged
    pulls.update_pull(access=by, pull=pull, title="Another")
    assert not new_pings()


def test_a_pull_that_begins_as_a_draft_asks_nobody_until_it_is_ready(
    make, team_repo, alice, bob, everybody
):
    asking(team_repo, alice, bob)
    new_pings()
    draft = {"source_branch": "topic", "target_branch": "main", "status": "draft"}
    by = access_of(alice, team_repo)
    pull = pulls.create_pull(access=by, title="t", body="@Vera", **draft)
    assert new_pings() == {"Vera mention"}
    pulls.update_pull(access=by, pull=pull, status="open")
    assert new_pings() == {"bob review_requested"}


def test_a_pull_asks_no_approver_whose_account_is_closed(make, team_repo, alice, bob):
    asking(team_repo, alice, bob)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    make.pull(team_repo, by=alice)
    assert not new_pings()


def test_a_pull_asks_nobody_where_no_approver_is_named(make, team_repo, alice):
    asking(team_repo, alice)
    make.pull(team_repo, by=alice)
    assert not new_pings()


def test_being_added_to_a_team_pings(acme, alice, carol):
    teams.add_member(access=team_access_of(alice, acme), user=carol, role="viewer")
    assert new_pings() == {"carol added"}
    teams.create_team(principal=team_access_of(carol, acme).principal, name="Own", slug="own")
    assert not new_pings()


def test_a_deleted_thread_takes_its_pings_along(make, team_repo, alice, bob):
    thread = make.thread(team_repo, by=alice, body="@bob")
    other = make.thread(team_repo, by=alice, body="@bob")
    threads.delete_thread(access=access_of(alice, team_repo), thread=thread)
    assert [row.event.thread_id for row in Ping.objects.all()] == [other.pk]
