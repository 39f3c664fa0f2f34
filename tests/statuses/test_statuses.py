"""…/commits/{sha}/statuses and …/commits/{sha}/status, and the states in records of commits."""

from __future__ import annotations

import pytest

from apps.statuses.actions import MOST_OF_CONTEXT, create_status
from apps.statuses.models import CommitStatus
from apps.statuses.rules import combined
from tests.principals import access_of
from tests.races import together


def test_a_status_is_reported(api, repo, alice, head, url, events):
    sent = {"context": "ci/build", "state": "pending", "description": "2 of 3 jobs"}
    with events("status-created") as recorded:
        made = api(alice).post(url, **sent, target_url="https://ci.example.org/7").gives(201)
    assert {**made, "uuid": "", "created_at": ""} == {
        **sent,
        "uuid": "",
        "sha": head,
        "target_url": "https://ci.example.org/7",
        "created_by_uuid": str(alice.uuid),
        "created_by_username": "alice",
        "created_by_is_bot": False,
        "created_at": "",
    }
    assert recorded[0].data == {"sha": head, "context": "ci/build", "state": "pending"}
    assert recorded[0].target == {"kind": "status", "uuid": made["uuid"], "sha": head}
    assert recorded[0].repo_id == repo.pk and recorded[0].thread_id is None
    assert api(alice).get(url).gives()["results"] == [made]


def test_the_latest_status_of_each_context_decides(api, repo, alice, head, url):
    def read():
        answer = api(alice).get(url.removesuffix("es")).gives()
        return answer["state"], {one["context"]: one["state"] for one in answer["contexts"]}

    def report(context, state):
        api(alice).post(url, context=context, state=state).gives(201)

    assert read() == ("none", {})
    report("ci/test", "success")
    assert read() == ("success", {"ci/test": "success"})
    report("ci/build", "pending")
    assert read() == ("pending", {"ci/build": "pending", "ci/test": "success"})
    report("ci/test", "error")
    assert read() == ("failure", {"ci/build": "pending", "ci/test": "error"})
    report("ci/test", "success")
    report("ci/build", "success")
    assert read() == ("success", {"ci/build": "success", "ci/test": "success"})
    listed = api(alice).get(f"{url}?context=ci/build").gives()["results"]
    assert [one["state"] for one in listed] == ["success", "pending"]


def test_commits_have_their_state(api, repo, alice, head, url):
    def states():
        one = api(alice).get(f"{repo.api_path}/commits/{head}").gives()["checks"]
        listed = api(alice).get(f"{repo.api_path}/commits").gives()["results"]
        assert [commit["checks"] for commit in listed] == [one]
        return one

    assert states() == {"state": "none", "sha": head}
    api(alice).post(url, context="ci", state="failure").gives(201)
    assert states() == {"state": "failure", "sha": head}


REFUSED = {
    "no context": {"state": "success"},
    "no state": {"context": "ci"},
    "an unknown state": {"context": "ci", "state": "passed"},
    "spaces at the end": {"context": "ci ", "state": "success"},
    "letters beyond ASCII": {"context": "prüfung", "state": "success"},
    "a long context": {"context": "c" * 101, "state": "success"},
    "a long description": {"context": "ci", "state": "success", "description": "d" * 256},
    "two lines": {"context": "ci", "state": "success", "description": "a\nb"},
    "a script": {"context": "ci", "state": "success", "target_url": "javascript:alert(1)"},
    "no host": {"context": "ci", "state": "success", "target_url": "https:///path"},
    "a space in the address": {"context": "ci", "state": "success", "target_url": "https://a/b c"},
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_an_invalid_status_is_refused(api, alice, url, sent, events):
    with events():
        api(alice).post(url, **sent).fails(422, "validation_failed")


@pytest.mark.parametrize("name", ["0" * 40, "main", "abc"])
def test_only_stored_commits_have_statuses(api, repo, alice, head, name):
    commit = f"{repo.api_path}/commits/{name}"
    api(alice).post(f"{commit}/statuses", context="ci", state="success").fails(404, "not_found")
    api(alice).get(f"{commit}/statuses").fails(404, "not_found")
    api(alice).get(f"{commit}/status").fails(404, "not_found")


def test_the_newest_statuses_of_each_context_are_kept(repo, alice, head):
    access = access_of(alice, repo)
    create_status(access=access, sha=head, context="other", state="failure")
    for number in range(MOST_OF_CONTEXT + 3):
        text = str(number)
        create_status(access=access, sha=head, context="ci", state="pending", description=text)
    statuses = CommitStatus.objects.filter(context="ci").order_by("pk")
    assert statuses.count() == MOST_OF_CONTEXT
    assert statuses[0].description == "3"
    assert CommitStatus.objects.filter(context="other").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_state_is_right_after_reports_at_the_same_time(repo, alice, head, api):
    def report(number):
        state = "failure" if number == 2 else "success"
        access = access_of(alice, repo)
        create_status(access=access, sha=head, context=f"ci/{number}", state=state)

    together(*(lambda number=number: report(number) for number in range(5)))
    commit = api(alice).get(f"{repo.api_path}/commits/{head}").gives()
    assert commit["checks"]["state"] == "failure"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], "none"),
        (["success", "success"], "success"),
        (["success", "pending"], "pending"),
        (["pending", "failure"], "failure"),
        (["error"], "failure"),
    ],
)
def test_the_worst_state_is_the_state_of_all(states, expected):
    assert combined(states) == expected
