"""The event scope of a thread."""

from __future__ import annotations

import pytest
from django.http import Http404

from apps.core.errors import ApiError
from apps.events.models import Event, Key
from apps.events.scopes import Names, resolve
from apps.threads.scopes import ThreadEventScope
from tests.principals import principal_of


@pytest.fixture
def scope(thread):
    return f"thread:{thread.repo.path}/{thread.number}"


@pytest.mark.parametrize(
    "form", ["thread:", "thread:1", "thread:teams/acme/1", "thread:teams/acme/api/x"]
)
def test_another_form_is_no_scope(alice, form):
    with pytest.raises(ApiError) as refused:
        resolve(principal_of(alice), [form])
    assert refused.value.code == "invalid_scope"


def test_only_readers_follow_a_thread(make, repo, alice, carol):
    thread = make.thread(repo, by=alice)
    scope = f"thread:{repo.path}/{thread.number}"
    with pytest.raises(ApiError) as refused:
        resolve(principal_of(carol), [scope])
    assert (refused.value.status, refused.value.code) == (403, "forbidden")
    (event_scope,) = resolve(principal_of(alice), [scope])
    assert (event_scope.key, event_scope.key.is_personal) == (Key("thread_id", thread.pk), False)


def test_a_thread_that_is_not_there_is_not_followed(scope, alice):
    for missing in (f"{scope}9", scope.replace("api", "none")):
        with pytest.raises(Http404):
            resolve(principal_of(alice), [missing])


def test_a_companion_is_followed_as_a_thread(companion, carol):
    scope = f"thread:{companion.repo.path}/{companion.number}"
    (event_scope,) = resolve(principal_of(carol), [scope])
    assert event_scope.key == Key("thread_id", companion.pk)


def test_events_of_a_thread_name_its_scope(make, thread, scope, alice):
    make.reply(thread, by=alice)
    events = Event.objects.filter(thread_id=thread.pk).order_by("id").rows()
    assert [event.kind for event in events] == ["thread-created", "reply-created"]
    assert all(scope in Names(events).scopes(event) for event in events)


def test_texts_and_readable_ids_follow_repositories(make, repo, alice, carol, scope, thread):
    other = make.thread(make.repo(carol, "own", by=carol), by=carol)
    assert ThreadEventScope().texts({thread.pk}) == {thread.pk: scope.removeprefix("thread:")}
    own = ThreadEventScope().readable(principal_of(alice)).values_list("pk", flat=True)
    assert (thread.pk in own, other.pk in own) == (True, False)
