"""Statuses that protections require for a merge (docs/statuses.md)."""

from __future__ import annotations

import pytest

from apps.repos.models import Protection
from apps.statuses.actions import create_status
from tests.factories import UserFactory
from tests.principals import access_of
from tests.pulls import paths
from tests.repos import paths as repo_paths

GREEN = "success"


@pytest.fixture
def protect(api, pull, alice):
    """`protect("ci")` requires these statuses on `main`, and no approval."""

    def send(*contexts, reporters=(), branch="main"):
        sent = {"required_statuses": [*contexts], "status_reporters": [*reporters]}
        url = repo_paths.protections(pull.repo)
        return api(alice).post(url, branch=branch, required_approvals=0, **sent).gives(201)

    return send


@pytest.fixture
def report(pull):
    """`report("ci", "success", by=bob)` reports a status of the pull's head, or of another sha."""

    def send(context, state, *, by, sha=""):
        access = access_of(by, pull.repo)
        return create_status(access=access, sha=sha or pull.head_sha, context=context, state=state)

    return send


@pytest.fixture
def merge(api, pull, alice):
    return lambda: api(alice).post(f"{paths.pull(pull)}/merge")


@pytest.fixture
def read(api, pull, alice):
    """The answer of `…/protection`."""
    return lambda: api(alice).get(f"{paths.pull(pull)}/protection").gives()


def test_a_merge_waits_for_each_required_status(protect, report, merge, read, bob):
    protect("ci/build", "ci/test")
    said = merge().fails(409, "statuses_required")
    assert said.endswith("ci/build is missing; ci/test is missing.")
    report("ci/build", GREEN, by=bob)
    for state in ("pending", "failure", "error"):
        report("ci/test", state, by=bob)
        assert f"ci/test is {state}" in merge().fails(409, "statuses_required")
        assert read()["statuses_missing"] == ["ci/test"]
    green = report("ci/test", GREEN, by=bob)
    answer = read()
    assert answer["statuses_missing"] == answer["blocked_reasons"] == []
    assert answer["checks"][1] == {
        "context": "ci/test",
        "state": "success",
        "status_uuid": str(green.uuid),
        "counts": True,
    }
    merge().gives()


def test_the_protection_names_missing_statuses(protect, read):
    made = protect("ci/test", "ci/build")
    assert made["required_statuses"] == ["ci/test", "ci/build"]
    answer = read()
    assert answer["blocked_reasons"] == ["statuses_required"]
    assert answer["statuses_missing"] == ["ci/build", "ci/test"]
    assert answer["checks"][0] == {
        "context": "ci/build",
        "state": "missing",
        "status_uuid": None,
        "counts": False,
    }
    assert answer["protections"][0]["required_statuses"] == ["ci/test", "ci/build"]


def test_a_push_needs_new_statuses_and_a_push_back_does_not(
    protect, report, merge, clone, pull, bob
):
    protect("ci")
    green = pull.head_sha
    report("ci", GREEN, by=bob)
    clone.push_commit("feature", {"arch": "shut\n"})
    pull.refresh_from_db()
    assert pull.head_sha != green
    merge().fails(409, "statuses_required")
    clone.push(f"{green}:feature")
    merge().gives()


def test_the_same_change_on_another_base_needs_new_statuses(
    api, make, protect, report, merge, clone, pull, alice, bob
):
    url = repo_paths.protections(pull.repo)
    both = {"required_approvals": 1, "required_statuses": ["ci"]}
    api(alice).post(url, branch="*", **both).gives(201)
    report("ci", GREEN, by=bob)
    make.review(pull, by=bob)
    clone.push_commit("feature", {}, message="the same files")
    pull.refresh_from_db()
    said = merge().fails(409, "statuses_required")
    assert "approval_required" not in said


def test_only_statuses_of_reporters_count(protect, report, merge, read, bob, sam):
    protect("ci", reporters=["SAM"])
    report("ci", GREEN, by=bob)
    merge().fails(409, "statuses_required")
    [check] = read()["checks"]
    assert (check["state"], check["counts"]) == ("success", False)
    report("ci", GREEN, by=sam)
    report("ci", "failure", by=bob)
    merge().gives()


def test_a_reporter_does_not_decide_about_an_own_pull(protect, report, merge, alice):
    protect("ci", reporters=["alice"])
    report("ci", GREEN, by=alice)
    merge().fails(409, "statuses_required")


def test_a_status_counts_no_longer_once_its_reporter_has_lost_access(
    protect, report, merge, pull, bob
):
    protect("ci", reporters=["bob"])
    report("ci", GREEN, by=bob)
    bob.is_active = False
    bob.save()
    merge().fails(409, "statuses_required")


def test_protections_that_match_require_the_union(protect, report, merge, bob, sam):
    protect("ci/build")
    protect("ci/test", branch="mai*")
    protect("ci/build", branch="m*", reporters=["sam"])
    report("ci/build", GREEN, by=bob)
    said = merge().fails(409, "statuses_required")
    assert said.endswith("ci/build is missing; ci/test is missing.")
    report("ci/test", GREEN, by=bob)
    report("ci/build", GREEN, by=sam)
    merge().gives()


def test_a_pull_shows_the_state_of_its_head(api, protect, report, pull, alice, bob, events):
    def states():
        one = api(alice).get(paths.pull(pull)).gives()["checks"]
        assert api(alice).get(paths.pulls(pull.repo)).gives()["results"][0]["checks"] == one
        return one

    assert states() == {"state": "none", "sha": pull.head_sha}
    with events("status-created") as recorded:
        report("ci", "failure", by=bob)
    assert states() == {"state": "failure", "sha": pull.head_sha}
    assert recorded[0].thread_id == pull.thread_id


REFUSED = {
    "too many": ({"required_statuses": [f"ci/{n}" for n in range(21)]}, "validation_failed"),
    "an empty name": ({"required_statuses": [""]}, "validation_failed"),
    "a text": ({"required_statuses": "ci"}, "validation_failed"),
    "nobody": ({"status_reporters": ["nobody"]}, "user_not_found"),
    "a person without access": ({"status_reporters": ["ina"]}, "validation_failed"),
}


@pytest.mark.parametrize(("sent", "code"), REFUSED.values(), ids=REFUSED)
def test_settings_that_no_merge_could_meet_are_refused(api, pull, alice, sent, code, events):
    UserFactory(username="ina", is_active=False)
    with events():
        url = repo_paths.protections(pull.repo)
        api(alice).post(url, branch="main", **sent).fails(422, code)


def test_both_lists_stay_as_they_are_unless_they_are_sent(api, protect, pull, alice, events):
    made = protect("ci", reporters=["bob"])
    url = f"{repo_paths.protections(pull.repo)}/{made['uuid']}"
    changed = api(alice).put(url, required_approvals=2).gives()
    assert (changed["required_statuses"], changed["status_reporters"]) == (["ci"], ["bob"])
    with events("protection-updated") as recorded:
        api(alice).put(url, required_statuses=[], status_reporters=[]).gives()
    assert recorded[0].data["changed"] == ["required_statuses", "status_reporters"]
    assert Protection.objects.get().status_reporters == []
