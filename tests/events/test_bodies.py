"""Events as HTML contain the current bodies, with links that each reader may follow."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.core import markdown
from apps.events.consumers import read_page
from apps.events.frames import bodies_for
from apps.events.models import Event, Key
from apps.events.scopes import EventScope, Selection
from apps.pulls import actions as pulls
from apps.pulls import event_bodies
from apps.repos.models import Repo, Visibility
from apps.threads import actions as threads
from apps.threads.models import Reply
from tests.events.conftest import ON_SERVE
from tests.principals import access_of, principal_of
from tests.tail import opened
from tests.web.page_client import PageClient

TIME = "</?time[^>]*>"
BODY = re.compile(
    r"<div class=.(?:prose|event-body).>\n?(.*?)</div>(?:\n</li>|</article>)", re.DOTALL
)


def reader(person: Any, repo: Repo, *, html: bool = True) -> Any:
    """The attributes of a subscriber that `read_page` uses."""
    scope = EventScope("repo", Key("repo_id", repo.pk))
    selection = Selection(principal_of(person), (scope,), frozenset())
    return SimpleNamespace(selection=selection, html=html)


def kinds_and_bodies(person, repo: Repo) -> list[tuple[str, str]]:
    """Kind and body of each event of a repository, from the HTML stream of this person."""
    lines = frames(person, repo)
    kinds = re.findall('data-kind="(.*?)"', "".join(lines))
    matches = [BODY.search(line) for line in lines]
    bodies = [match[1].strip() if match else "" for match in matches]
    return list(zip(kinds, bodies, strict=True))


def frames(person, repo: Repo) -> list[str]:
    """The HTML of each event of a repository in the stream of this person."""
    allowed, page = read_page(reader(person, repo), 0, 10**9)
    assert allowed is not None
    frames_lines = [data.decode().splitlines()[2:] for _, data in page]
    return ["".join(f"{line[6:]}\n" for line in lines) for lines in frames_lines]


def last(person, repo: Repo) -> str:
    return kinds_and_bodies(person, repo)[-1][1]


def template_of(frame: str) -> str:
    """The template in this frame, which pages insert."""
    match = re.search("<template>(.*)</template>", frame, re.DOTALL)
    return match[1] if match else ""


@pytest.fixture
def visit(db):
    return PageClient


@pytest.fixture
def repo(make, acme, alice):
    return make.repo(acme, "open", by=alice, visibility=Visibility.INTERNAL)


def test_events_by_which_something_was_written_have_it(make, repo, alice, bob):
    by = access_of(alice, repo)
    thread = make.thread(repo, by=alice, body="*one*")
    reply = make.reply(thread, by=alice, body="*two*")
    pull = make.pull(repo, by=alice, body="*three*")
    review = make.review(pull, by=bob, body="*four*")
    threads.update_reply(access=by, reply=reply, body="**new**")
    threads.update_reply(access=by, reply=reply, status="resolved")
    threads.update_thread(access=by, thread=thread, status="closed", body="**done**")
    pulls.update_pull(access=by, pull=pull, title="Other")
    pulls.update_review(access=access_of(bob, repo), review=review, body="")
    done, new, three = "<p><strong>done</strong></p>", "<p><strong>new</strong></p>", "three"
    assert kinds_and_bodies(bob, repo)[1:] == [
        ("thread-created", done),
        ("reply-created", new),
        ("pull-created", f"<p><em>{three}</em></p>"),
        ("review-created", ""),
        ("reply-updated", new),
        ("reply-updated", new),
        ("thread-status-changed", done),
        ("pull-updated", ""),
        ("review-updated", ""),
    ]
    _, page = read_page(reader(bob, repo, html=False), 0, 10**9)
    assert b"done" not in b"".join(data for _, data in page)


def test_what_was_deleted_is_told_by_no_event(make, repo, alice, bob, sam):
    by = access_of(alice, repo)
    thread = make.thread(repo, by=alice, body="a secret")
    replies = [make.reply(thread, by=alice, body="a secret") for _ in range(3)]
    review = make.review(make.pull(repo, by=alice), by=alice, body="a secret")
    assert sum("secret" in body for _, body in kinds_and_bodies(bob, repo)) == 5
    threads.delete_reply(access=by, reply=replies[0])
    threads.moderate_reply(access=access_of(sam, repo), reply=replies[1])
    pulls.delete_review(access=by, review=review)
    assert sum("secret" in body for _, body in kinds_and_bodies(bob, repo)) == 2
    threads.delete_thread(access=by, thread=thread)
    assert sum("secret" in body for _, body in kinds_and_bodies(bob, repo)) == 0


def test_a_reply_comes_as_its_page_shows_it_to_everybody(make, repo, alice, bob, visit):
    by = access_of(alice, repo)
    thread = make.thread(repo, by=alice)
    first = make.reply(thread, by=alice, body="*one*")
    second = make.reply(thread, by=alice, to=first, body="two")
    page = visit(bob).get(f"/{repo.path}/threads/{thread.number}").html
    events = frames(bob, repo)
    rows = [template_of(frame) for frame in events[2:]]
    assert all(re.sub(TIME, "", row) in re.sub(TIME, "", page) for row in rows)
    shown = f'data-thread="{thread.number}" data-reply="2" data-parent="1" data-depth="1"'
    assert shown in events[3]
    assert "Edit" not in rows[0]
    assert rows == [template_of(frame) for frame in frames(alice, repo)[2:]]
    threads.delete_reply(access=by, reply=first)
    assert "<template>" in frames(bob, repo)[4] and "Reply 1 was deleted" in frames(bob, repo)[4]
    threads.delete_reply(access=by, reply=second)
    for frame in frames(bob, repo)[2:]:
        assert "<template>" not in frame and "data-reply" in frame


def test_a_reader_has_links_to_what_they_may_read_alone(make, acme, repo, alice, bob, carol):
    secret = make.thread(make.repo(acme, "secret", by=alice), by=alice)
    name = f"{secret.repo.path}#{secret.number}"
    thread = make.thread(repo, by=alice, body=f"#1 #99 @bob {name} {repo.path}#1")
    links = {who: re.findall(r"<a [^>]*>([^<]*)</a>", last(who, repo)) for who in (bob, carol)}
    assert links == {
        bob: ["#1", "@bob", name, f"{repo.path}#1"],
        carol: ["#1", "@bob", f"{repo.path}#1"],
    }
    assert name in last(carol, repo)
    threads.delete_thread(access=access_of(alice, secret.repo), thread=secret)
    assert name not in re.findall(r"<a [^>]*>([^<]*)</a>", last(bob, repo))
    assert thread.number == 1


def test_bodies_are_safe_and_of_many_lines(make, repo, alice, bob):
    body = "<script>x</script>\n\n<img src=x onerror=alert(1)>\r\n\n    id: 7\n\nevent: forged"
    make.thread(repo, by=alice, body=body)
    _, page = read_page(reader(bob, repo), 0, 10**9)
    frame = page[-1][1].decode()
    assert not re.search("script>|onerror", frame)
    for line in frame.split("\n")[:-2]:
        assert line.startswith(("id: ", "event: thread", "data: "))
    assert "data: <p>event: forged</p>" in frame


def test_long_bodies_are_left_out(make, repo, alice, bob, monkeypatch):
    monkeypatch.setattr(event_bodies, "LONGEST", 30)
    make.thread(repo, by=alice, body="x" * 22)
    assert last(bob, repo) == f"<p>{'x' * 22}</p>"
    make.thread(repo, by=alice, body="x" * 23)
    assert last(bob, repo) == ""
    make.thread(repo, by=alice, body="x" * 31)
    assert last(bob, repo) == ""
    make.reply(make.thread(repo, by=alice), by=alice, body="&&&&&")
    assert "A long text: open it" in last(bob, repo) and "&&" not in last(bob, repo)


def test_a_reply_that_shows_nothing_is_no_long_text(make, repo, alice, bob):
    make.reply(make.thread(repo, by=alice), by=alice, body="<!-- for later -->")
    reply = template_of(frames(bob, repo)[-1])
    assert '<div class="prose"></div>' in reply


def test_what_another_renderer_made_is_rendered_anew(make, repo, alice, bob):
    make.reply(make.thread(repo, by=alice), by=alice, body="*a*")
    Reply.objects.update(body_html="<script>", html_version=markdown.VERSION - 1)
    assert last(bob, repo) == "<p><em>a</em></p>"


def test_a_page_of_bodies_takes_so_many_queries_however_many_there_are(
    make, acme, repo, alice, bob
):
    others = [make.repo(acme, by=alice) for _ in range(4)]
    counts = []
    for number in (1, 4):
        for other in others[:number]:
            body = f"#1 @bob {other.path}#1 1f2e3d4"
            make.thread(other, by=alice)
            make.reply(make.thread(repo, by=alice, body=body), by=alice, body=body)
            make.review(make.pull(repo, by=alice, body=body), by=bob, body=body)
        with CaptureQueriesContext(connection) as captured:
            assert last(bob, repo).count("<a") == 3
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 16


def test_of_readers_nothing_is_asked_where_all_may_follow_the_links(make, repo, alice, bob, carol):
    """Otherwise a thousand streams would run a thousand queries and delay all others."""
    readers = [principal_of(person) for person in (alice, bob, carol)]
    make.reply(make.thread(repo, by=alice, body="#1 @bob 1f2e3d4"), by=alice, body="x")
    rows = Event.objects.filter(repo_id=repo.pk).rows()
    counts = []
    for some in (readers[:1], readers):
        with CaptureQueriesContext(connection) as captured:
            bodies = bodies_for(rows, some, renew=True)
        assert [len(bodies[reader]) for reader in some] == [2] * len(some)
        counts.append(len(captured))
    assert counts[0] == counts[1]


@ON_SERVE
def test_the_stream_tells_each_of_its_readers_what_was_written(followed):
    """Two repositories: everybody may read one, and bob but not carol the other."""
    server, api = followed.server, followed.server.api("alice")
    followed.describe("Open", visibility="internal")
    api.post(f"{followed.path}/repos", name="Secret", slug="secret").gives(201)
    api.post(f"{followed.path}/repos/secret/threads", title="T", body="", kind="issue").gives(201)
    name = f"teams/{followed.team}/secret#1"
    query = f"{followed.repo_scope}&html=true"
    with (
        opened(server, "bob", query) as bob,
        opened(server, "carol", query) as carol,
        opened(server, "alice", followed.repo_scope) as plain,
    ):
        followed.thread(body=f"*See* {name}")
        [mine], [hers], [record] = bob.take(1), carol.take(1), plain.take(1)
    assert f">{name}</a>" in mine.data and "<em>See</em>" in mine.data
    assert f"<p><em>See</em> {name}</p>" in hers.data
    assert "body" not in record.json and "See" not in record.data
    with opened(server, "carol", f"{query}&last_event_id={mine.id - 1}") as again:
        assert again.take(1)[0].data == hers.data
