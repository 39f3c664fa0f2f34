"""E-mails about pings: their recipients, how often they come, and failures while sending."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.db.models import F
from django.utils import timezone

from apps.accounts import actions, jobs
from apps.accounts.models import User
from apps.events.models import Event, Ping, PingMail
from apps.repos.actions import delete_repo, update_repo
from apps.teams.actions import add_member, remove_member
from apps.threads.actions import delete_thread
from tests.factories import UserFactory
from tests.principals import access_of, principal_of, team_access_of
from tests.races import Outcome, at_once


class Backend(EmailBackend):
    """Django's backend for tests, which also calls `meanwhile` while it sends."""

    meanwhile: ClassVar[Callable[[], object]]

    def send_messages(self, messages: Any) -> int:
        count = super().send_messages(messages)
        type(self).meanwhile()
        return count


class Died(BaseException):
    """Ends the job like kill -9: no code catches it."""


def die() -> None:
    raise Died


def fail() -> None:
    mail.outbox.pop()
    raise OSError("no route to bob@example.org")


@pytest.fixture
def meanwhile(settings, monkeypatch):
    """`meanwhile(act)`: from now on `act` is called while a message is sent."""
    # pytest-django sets another backend. Django reads the setting for each message.
    settings.EMAIL_BACKEND = f"{__name__}.Backend"
    return lambda act: monkeypatch.setattr(Backend, "meanwhile", staticmethod(act), raising=False)


@pytest.fixture
def thread(make, team_repo, alice, bob, settings):
    """A thread of alice, on a site that sends mail, with mail about pings turned on by bob."""
    settings.SENDS_MAIL = True
    bob.email = "bob@example.org"
    bob.save()
    actions.update_user(principal=principal_of(bob), user=bob, wants_mail=True)
    return make.thread(team_repo, by=alice, title="Slow pushes")


def work():
    """Send all mails that are due; return their number."""
    before = len(mail.outbox)
    while jobs.send_next_ping_mail():
        pass
    return len(mail.outbox) - before


def later(**span: float) -> None:
    """Move leases and events back by this time, as if it had passed."""
    passed = dt.timedelta(**span)
    PingMail.objects.update(lease_until=F("lease_until") - passed)
    Event.objects.update(created_at=F("created_at") - passed)


def test_who_wants_it_is_told_of_a_ping_by_mail(make, thread, alice, team_repo):
    make.reply(thread, by=alice, body="A secret for @bob")
    assert work() == 1
    [message] = mail.outbox
    assert message.to == ["bob@example.org"]
    assert message.subject == "[teams/acme/api] Slow pushes"
    url = "http://127.0.0.1:8000/teams/acme/api/threads/1#reply-1"
    assert f"alice mentioned you:\n{url}\n" in message.body and "secret" not in message.body
    link = re.findall(r"http://127.0.0.1:8000/unsubscribe\?token=\S+", str(message.body))[0]
    headers = message.message()
    assert headers["List-Unsubscribe"] == f"<{link}>"
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert not getattr(message, "alternatives", []) and work() == 0


def test_nobody_else_gets_mail(make, thread, alice, bob, settings):
    principal = principal_of(bob)
    make.reply(thread, by=bob, body="@alice @bob")
    assert not PingMail.objects.exists()
    make.reply(thread, by=alice, body="@bob")
    actions.update_user(principal=principal, user=bob, email="")
    make.reply(thread, by=alice, body="@bob")
    assert work() == 0
    actions.update_user(principal=principal, user=bob, wants_mail=False)
    bob.email = "bob@example.org"
    bob.save()
    assert not work()
    make.reply(thread, by=alice, body="@bob")
    settings.SENDS_MAIL = False
    make.reply(thread, by=alice, body="@bob")
    settings.SENDS_MAIL = True
    assert work() == 0 and Ping.objects.filter(user=bob).count() == 4


def test_nobody_is_told_about_a_deleted_repository(make, thread, alice, team_repo):
    make.reply(thread, by=alice, body="@bob")
    delete_repo(access=access_of(alice, team_repo), confirm=team_repo.full_name)
    assert work() == 0


def test_who_changes_their_mind_before_it_is_sent_gets_none(make, thread, alice, bob):
    make.reply(thread, by=alice, body="@bob")
    actions.update_user(principal=principal_of(bob), user=bob, wants_mail=False)
    assert work() == 0


def test_a_site_without_mail_keeps_no_jobs_and_sends_none(make, thread, alice, settings):
    """When the site sends mail later, older pings are left out."""
    settings.SENDS_MAIL = False
    make.reply(thread, by=alice, body="@bob")
    assert not PingMail.objects.exists()
    settings.SENDS_MAIL = True
    make.reply(thread, by=alice, body="@bob")
    settings.SENDS_MAIL = False
    assert work() == 0 and PingMail.objects.exists()


def test_who_has_no_address_any_more_gets_none(make, thread, alice, bob):
    make.reply(thread, by=alice, body="@bob")
    User.objects.filter(pk=bob.pk).update(email="")
    assert work() == 0
    row = PingMail.objects.get()
    assert row.told == row.newest  # the job does not try again


def test_what_comes_within_ten_minutes_is_gathered_in_the_next_mail(make, thread, alice, team_repo):
    make.reply(thread, by=alice, body="@bob one")
    assert work() == 1
    for _ in range(2):
        make.reply(thread, by=alice, body="@bob")
    later(minutes=9)
    assert work() == 0
    make.thread(team_repo, by=alice, title="Another", body="@bob")
    assert work() == 1
    later(minutes=1.1)
    assert work() == 1
    body = str(mail.outbox[-1].body)
    assert [f"#reply-{number}\n" in body for number in (1, 2, 3)] == [False, True, True]
    later(minutes=20)
    assert work() == 0


def test_what_was_read_or_may_not_be_read_any_more_is_not_told(
    make, thread, alice, bob, acme, team_repo
):
    by = team_access_of(alice, acme)
    make.reply(thread, by=alice, body="@bob")
    Ping.objects.update(read_at=timezone.now())
    assert work() == 0
    make.reply(thread, by=alice, body="@bob")
    remove_member(access=by, member=acme.members.get(user=bob))
    assert work() == 0
    add_member(access=by, user=bob, role="member")
    assert work() == 1 and "added you to the team acme:" in str(mail.outbox[-1].body)
    assert mail.outbox[-1].subject == "[teams/acme] You were added to the team"
    make.reply(thread, by=alice, body="@bob")
    delete_thread(access=access_of(alice, team_repo), thread=thread)
    assert work() == 0


def test_a_deactivated_account_gets_none(make, thread, alice, bob, sam):
    make.reply(thread, by=alice, body="@bob")
    actions.deactivate_user(principal=principal_of(sam), user=bob)
    assert work() == 0
    actions.reactivate_user(principal=principal_of(sam), user=bob)
    assert work() == 0


def test_a_title_breaks_no_header(make, thread, alice, team_repo):
    make.thread(team_repo, by=alice, title="One\nBcc: eve@example.org\u2028x", body="@bob")
    assert work() == 1
    headers = mail.outbox[0].message()
    assert headers["Bcc"] is None and mail.outbox[0].recipients() == ["bob@example.org"]


def test_a_title_from_before_the_rule_turns_no_subject(make, thread, alice, team_repo):
    make.thread(team_repo, by=alice, title="Fix \u202ereversed\u200b", body="@bob")
    assert work() == 1
    assert mail.outbox[0].subject == "[teams/acme/api] Fix reversed"


def test_a_failure_is_tried_again_with_growing_waits_for_a_day(
    make, thread, alice, meanwhile, caplog
):
    meanwhile(fail)
    make.reply(thread, by=alice, body="@bob")
    waits = []
    for _ in range(9):
        assert work() == 0
        until = PingMail.objects.get().lease_until or timezone.now()
        waits.append(round((until - timezone.now()).total_seconds() / 60))
        later(minutes=waits[-1], seconds=1)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 128]
    assert "could not be sent" in caplog.text and "bob@" not in caplog.text
    meanwhile(lambda: None)
    assert work() == 1
    later(days=1)
    meanwhile(fail)
    make.reply(thread, by=alice, body="@bob")
    assert work() == 0
    later(days=1)
    meanwhile(lambda: None)
    assert work() == 0
    make.reply(thread, by=alice, body="@bob")
    assert work() == 1 and "#reply-2" not in str(mail.outbox[-1].body)


def test_a_failure_holds_up_nobody_else(make, thread, alice, team_repo, meanwhile):
    carol = UserFactory.create(username="carla", staff=True, email="c@example.org", wants_mail=True)
    meanwhile(lambda: fail() if mail.outbox[-1].to != [carol.email] else None)
    make.thread(team_repo, by=alice, body="@bob @carla")
    assert work() == 1


def test_a_worker_that_dies_after_sending_leaves_one_mail_that_comes_twice(
    make, thread, alice, meanwhile
):
    make.reply(thread, by=alice, body="@bob")
    meanwhile(die)
    with pytest.raises(Died):
        work()
    meanwhile(lambda: None)
    assert work() == 0
    later(seconds=61)
    assert work() == 1 and len(mail.outbox) == 2
    later(minutes=11)
    assert work() == 0


def test_what_comes_while_a_mail_is_sent_is_in_the_next(make, thread, alice, meanwhile):
    make.reply(thread, by=alice, body="@bob")
    meanwhile(lambda: make.reply(thread, by=alice, body="@bob again"))
    assert work() == 1
    later(minutes=11)
    meanwhile(lambda: None)
    assert work() == 1 and "#reply-2" in str(mail.outbox[-1].body)
    later(minutes=11)
    assert work() == 0


def test_one_mail_says_when_there_is_more_than_it_tells(make, thread, alice, monkeypatch):
    monkeypatch.setattr(jobs, "MOST", 2)
    for _ in range(3):
        make.reply(thread, by=alice, body="@bob")
    assert work() == 1 and "There are more pings" in str(mail.outbox[0].body)
    assert "#reply-1\n" not in str(mail.outbox[0].body) and work() == 0


def test_a_hidden_repository_tells_no_title(make, thread, alice, carol, bob):
    repo = make.repo(alice, "own", by=alice, visibility="public")
    make.thread(repo, by=alice, title="Hidden", body="@bob")
    by = access_of(alice, repo)
    update_repo(access=by, name=repo.name, slug=repo.slug, visibility="private")
    assert work() == 0


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_one_sends(make, thread, alice):
    make.reply(thread, by=alice, body="@bob")
    at_once(*[lambda: Outcome(jobs.send_next_ping_mail) for _ in range(2)])
    assert len(mail.outbox) == 1 and work() == 0
