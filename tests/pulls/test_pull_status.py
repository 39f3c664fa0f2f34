"""`…/pulls/{number}/status`, and the transitions between statuses of pulls."""

from __future__ import annotations

import pytest

from apps.pulls.models import Pull
from tests.pulls import paths

MOVES = {
    ("open", "open"): None,
    ("open", "draft"): "pull-drafted",
    ("open", "closed"): "pull-closed",
    ("draft", "open"): "pull-readied",
    ("draft", "draft"): None,
    ("draft", "closed"): "pull-closed",
    ("closed", "open"): "pull-reopened",
    ("closed", "draft"): "invalid_transition",
    ("closed", "closed"): None,
    ("merged", "open"): "pull_already_merged",
    ("merged", "draft"): "pull_already_merged",
    ("merged", "closed"): "pull_already_merged",
}
MIRRORED = {"open": "open", "draft": "open", "closed": "closed"}


@pytest.mark.parametrize("move", MOVES)
def test_every_move_is_made_or_refused(api, make, team_repo, alice, events, move):
    """Set the status at both addresses that accept one."""
    before, after = move
    said = MOVES[move]
    kinds = [said] if said and said.startswith("pull-") else []
    for suffix in ("", "/status"):
        pull = make.pull(team_repo, by=alice)
        Pull.objects.filter(pk=pull.pk).update(status=before)
        with events(*kinds) as recorded:
            answer = api(alice).put(paths.pull(pull) + suffix, status=after)
        if said and not kinds:
            answer.fails(409, said)
        else:
            assert answer.gives()["status"] == after
        assert [event.data["after"] for event in recorded] == [after] * len(kinds)
        read = api(alice).get(paths.pull(pull)).gives()["status"]
        assert read == (before if answer.status == 409 else after)


@pytest.mark.parametrize("status", MIRRORED)
def test_the_thread_mirrors_the_status(api, bare_pull, carol, status):
    thread = f"{bare_pull.repo.api_path}/threads/{bare_pull.number}"
    changed = api(carol).put(f"{paths.pull(bare_pull)}/status", status=status).gives()
    assert api(carol).get(thread).gives()["status"] == MIRRORED[status]
    assert (changed["closed_at"] is not None) == (status == "closed")


def test_a_thread_of_a_merged_pull_is_resolved(api, pull, alice):
    api(alice).post(f"{paths.pull(pull)}/merge").gives()
    thread = api(alice).get(f"{pull.repo.api_path}/threads/{pull.number}").gives()
    assert thread["status"] == "resolved"
    changed = api(alice).put(paths.pull(pull), title="As merged", body="Done.").gives()
    assert (changed["title"], changed["status"]) == ("As merged", "merged")


def test_a_status_is_required_and_one_that_people_set(api, bare_pull, carol):
    url = f"{paths.pull(bare_pull)}/status"
    for body in ({}, {"status": "merged"}, {"status": None}, {"status": "new"}):
        api(carol).put(url, **body).fails(422, "validation_failed")


def test_a_reopened_pull_stands_where_its_branches_are_by_now(api, pull, clone, alice, bob, events):
    url = f"{paths.pull(pull)}/status"
    api(alice).put(url, status="closed").gives()
    head = clone.commit("feature", {"window": "1\n"})
    base = clone.commit("main", {"gate": "1\n"})
    with events("branch-pushed", "branch-pushed"):
        clone.push("feature", "main", by=bob)
    unmoved = api(alice).get(paths.pull(pull)).gives()
    assert (unmoved["head_sha"], unmoved["base_sha"]) == (pull.head_sha, pull.base_sha)
    with events("pull-reopened"):
        again = api(alice).put(url, status="open").gives()
    assert (again["head_sha"], again["base_sha"], again["commit_count"]) == (head, base, 2)
    assert Pull.objects.get().head_pushed_by == bob


def test_a_second_pull_keeps_the_first_from_being_reopened(api, make, pull, alice):
    url = f"{paths.pull(pull)}/status"
    api(alice).put(url, status="closed").gives()
    make.pull(pull.repo, by=alice)
    api(alice).put(url, status="open").fails(409, "pull_already_exists")
