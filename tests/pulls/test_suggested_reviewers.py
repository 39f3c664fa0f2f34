"""Suggested reviewers of a pull: approvers, and authors of the lines that it changes."""

from __future__ import annotations

import pytest

from apps.accounts.models import User
from apps.pulls.reviewer_suggestions import authors_of_changes, suggestions
from apps.pulls.versions import get_version
from apps.repos.models import Visibility
from tests.git.stand_ins import failing_git
from tests.principals import principal_of
from tests.pulls import paths

BEFORE = "\n".join(f"line {n}" for n in range(1, 21))


@pytest.fixture
def written(make, clone, alice):
    """A pull by alice that changes lines 3 to 5 and 18 of a file of bob's, and adds one between
    lines 10 and 11. Others have written the lines 4 and 10.
    """
    lines = BEFORE.splitlines()
    for n, name in ((3, "bob"), (18, "bob"), (4, "carol"), (10, "sam")):
        email = f"{name}@example.org"
        User.objects.filter(username=name).update(email=email, email_key=email)
        lines[n - 1] = f"line {n} by {name}"
        clone.push_commit("main", {"notes": text(lines)}, email=email)
    lines[2:5] = ["three", "four", "five"]
    lines[17] = "eighteen"
    lines.insert(10, "after ten")
    clone.push_commit("topic", {"notes": text(lines), "new": "text\n"}, onto="main")
    return make.pull(clone.repo, by=alice, source="topic", title="Notes")


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def read(api, person, pull):
    rows = api(person).get(f"{paths.pull(pull)}/reviewers").gives()["suggestions"]
    return [(row["username"], row["is_approver"], row["changed_lines"]) for row in rows]


def test_authors_of_changed_lines_and_approvers_are_suggested(api, make, written, alice, sam):
    assert read(api, alice, written) == [("bob", False, 4), ("carol", False, 1), ("sam", False, 1)]
    make.protection(written.repo, by=alice, approver=sam)
    assert read(api, alice, written) == [("bob", False, 4), ("sam", True, 1), ("carol", False, 1)]
    api(alice).put(f"{paths.pull(written)}/reviewers", reviewers=["bob"]).gives()
    assert read(api, alice, written) == [("sam", True, 1), ("carol", False, 1)]


def test_only_people_who_can_review_are_suggested(api, written, alice, carol, sam):
    User.objects.filter(pk=sam.pk).update(is_active=False)
    written.repo.visibility = Visibility.PRIVATE
    written.repo.save()
    assert read(api, alice, written) == [("bob", False, 4)]


def test_git_is_asked_once_and_not_without_a_throttle_key(
    api, written, alice, tmp_path, monkeypatch
):
    principal, version = principal_of(alice), get_version(written, None)
    assert version and suggestions(written, principal, set(), None) == []
    assert authors_of_changes(version, "a test")[0] == ("bob@example.org", 4)
    with failing_git(tmp_path, monkeypatch):
        assert [one.user.username for one in suggestions(written, principal, set(), None)] == [
            "bob",
            "carol",
            "sam",
        ]
        assert len(read(api, alice, written)) == 3


def test_approvers_are_suggested_if_git_fails(
    api, make, written, alice, sam, tmp_path, monkeypatch
):
    make.protection(written.repo, by=alice, approver=sam)
    with failing_git(tmp_path, monkeypatch):
        assert read(api, alice, written) == [("sam", True, 0)]


def test_a_pull_without_changes_or_branches_has_no_authors(api, make, clone, alice):
    pull = make.pull(clone.repo, by=alice, source="nowhere")
    assert read(api, alice, pull) == []
