"""Parsing a text is slow: actions do it once for each text, before they lock rows."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.core import markdown
from apps.core.lexers import Budget
from apps.events.models import Ping
from apps.pulls import actions as pulls
from apps.pulls.models import Review
from apps.threads import actions as threads
from apps.threads.models import Reply, Thread
from tests.principals import access_of


@pytest.fixture
def parsed(monkeypatch) -> list[tuple[str, bool]]:
    """The texts that are parsed, each with whether that was inside a transaction."""
    texts: list[tuple[str, bool]] = []
    parse = markdown._html

    def note(text: str, budget: Budget) -> str:
        texts.append((text, connection.in_atomic_block))
        return parse(text, budget)

    monkeypatch.setattr(markdown, "_html", note)
    return texts


def age() -> None:
    """Mark all stored HTML as made by an older renderer."""
    for model in (Thread, Reply, Review):
        model.objects.update(body_html="", html_version=markdown.VERSION - 1)


@pytest.mark.django_db(transaction=True)
def test_texts_are_parsed_once_and_under_no_lock(make, team_repo, alice, bob, parsed):
    by = access_of(alice, team_repo)
    thread = make.thread(team_repo, by=alice, body="@bob 1")
    reply = make.reply(thread, by=alice, body="@bob 2")
    pull = make.pull(team_repo, by=alice, body="@bob 3")
    review = make.review(pull, by=alice, body="@bob 4")
    assert parsed == [(f"@bob {number}", False) for number in (1, 2, 3, 4)]
    for before in ([], [(f"@bob {number}", False) for number in (1, 2, 3, 4)]):
        parsed.clear()
        threads.update_thread(access=by, thread=thread, body="@bob @alice")
        threads.update_reply(access=by, reply=reply, body="@bob @alice")
        pulls.update_pull(access=by, pull=pull, body="@bob @alice")
        pulls.update_review(access=by, review=review, body="@bob @alice")
        assert sorted(parsed) == sorted([*before, *[("@bob @alice", False)] * 4])
        for row, number in ((thread, 1), (reply, 2), (pull.thread, 3), (review, 4)):
            type(row).objects.filter(pk=row.pk).update(body=f"@bob {number}")
        age()
        for row in (thread, reply, pull.thread, review):
            row.refresh_from_db()
    assert Ping.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_an_edit_of_what_another_renderer_made_pings_no_one_anew(make, team_repo, alice, bob):
    """bob joined after the text had mentioned him."""
    thread = make.thread(team_repo, by=bob, body="@bob and @alice")
    Ping.objects.all().delete()
    age()
    thread.refresh_from_db()
    by = access_of(bob, team_repo)
    threads.update_thread(access=by, thread=thread, body="@bob and @alice again")
    assert not Ping.objects.exists()
