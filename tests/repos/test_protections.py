"""…/protections: list, create, read, change, delete."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.repos.actions import create_protection, update_protection
from apps.repos.models import Protection
from apps.repos.models.protection import glob_matches
from tests.principals import access_of
from tests.races import at_once
from tests.repos import paths

NO_STATUSES: dict[str, Any] = {
    "required_statuses": [],
    "status_reporters": [],
    "resolved_required": False,
}


def test_a_branch_is_protected(api, repo, alice, events):
    url = paths.protections(repo)
    with events("protection-created") as recorded:
        made = api(alice).post(url, branch="main").gives(201)
    assert {**made, "uuid": "", "created_at": "", "updated_at": ""} == {
        "uuid": "",
        "branch": "main",
        "required_approvals": 1,
        "required_statuses": [],
        "status_reporters": [],
        "resolved_required": False,
        "is_satisfiable": repo.owner_team is not None,  # otherwise only the author could approve
        "approver_count": 0,
        "created_by_username": "alice",
        "created_at": "",
        "updated_at": "",
    }
    assert api(alice).get(f"{url}/{made['uuid']}").gives() == made
    assert recorded[0].data == {"branch": "main", "required_approvals": 1, **NO_STATUSES}
    assert recorded[0].target == {"kind": "protection", "uuid": made["uuid"]}


def test_the_same_pattern_is_protected_once_and_case_counts(api, make, repo, alice, events):
    url = paths.protections(repo)
    api(alice).post(url, branch="Main").gives(201)
    api(alice).post(url, branch="main").gives(201)
    with events():
        api(alice).post(url, branch="main").fails(409, "protection_exists")
    other = make.repo(alice, "other", by=alice)
    api(alice).post(paths.protections(other), branch="main").gives(201)


NO_PROTECTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "validation_failed"),
    ({"branch": ""}, "validation_failed"),
    ({"branch": 1}, "validation_failed"),
    ({"branch": "a b"}, "validation_failed"),
    ({"branch": "a..b"}, "validation_failed"),
    ({"branch": "main\u202e"}, "validation_failed"),
    ({"branch": "-main"}, "validation_failed"),
    ({"branch": "release/**"}, "validation_failed"),
    ({"branch": "v[12]"}, "validation_failed"),
    ({"branch": "v?"}, "validation_failed"),
    ({"branch": "x" * 256}, "validation_failed"),
    ({"branch": "main", "approvals": 2}, "unknown_field"),
]


def test_a_body_that_protects_nothing_is_refused(api, team_repo, alice):
    for body, code in NO_PROTECTIONS:
        detail = api(alice).post(paths.protections(team_repo), **body).fails(422, code)
        assert "branch" in detail, body


def test_protections_are_listed_oldest_first_by_page(api, make, repo, alice):
    for branch in ("main", "release/*", "*"):
        make.protection(repo, branch, by=alice, approver=alice if branch == "*" else None)
    page = api(alice).get(f"{paths.protections(repo)}?per_page=2").gives()
    assert [row["branch"] for row in page["results"]] == ["main", "release/*"]
    last = api(alice).get(page["next"]).gives()["results"]
    assert [(row["branch"], row["approver_count"]) for row in last] == [("*", 1)]


def test_a_protection_is_moved_to_another_branch(api, make, repo, alice, events):
    protection = make.protection(repo, by=alice, approver=alice)
    make.protection(repo, "trunk", by=alice)
    url = paths.protection(protection)
    api(alice).put(url, branch="trunk").fails(409, "protection_exists")
    with events():
        api(alice).send("PUT", url, {"branch": "main"}).gives()
        api(alice).send("PUT", url, {}).gives()
    with events("protection-updated") as recorded:
        changed = api(alice).put(url, branch="release/*").gives()
    assert (changed["branch"], changed["approver_count"]) == ("release/*", 1)
    assert changed["updated_at"] > changed["created_at"]
    assert api(alice).get(url).gives() == changed
    assert recorded[0].data == {
        "branch": "release/*",
        "required_approvals": 1,
        **NO_STATUSES,
        "changed": ["branch"],
        "before": {"branch": "main", "required_approvals": 1, **NO_STATUSES},
    }


def test_a_protection_ends_with_its_approvers(api, make, repo, alice, events):
    protection = make.protection(repo, by=alice, approver=alice)
    url = paths.protection(protection)
    with events("protection-deleted") as recorded:
        api(alice).delete(url).gives(204)
    assert recorded[0].data["branch"] == "main"
    for answer in (api(alice).get(url), api(alice).delete(url), api(alice).put(url, branch="x")):
        answer.fails(404, "not_found")
    api(alice).get(f"{url}/approvers").fails(404, "not_found")


def test_a_protection_of_another_repository_is_not_found(api, make, repo, alice):
    other = make.protection(make.repo(alice, "other", by=alice), by=alice)
    for ident in (other.uuid, uuid.uuid4()):
        api(alice).get(f"{paths.protections(repo)}/{ident}").fails(404, "not_found")
    api(alice).get(f"{paths.protections(repo)}/main").fails(404, "not_found")


def test_admins_say_how_many_approvals_are_asked_for(api, team_repo, alice, events):
    url = paths.protections(team_repo)
    with events("protection-created") as recorded:
        made = api(alice).post(url, branch="main", required_approvals=0).gives(201)
    assert made["required_approvals"] == recorded[0].data["required_approvals"] == 0
    one = f"{url}/{made['uuid']}"
    with events():
        api(alice).put(one, required_approvals=0).gives()
    with events("protection-updated") as recorded:
        changed = api(alice).put(one, required_approvals=20).gives()
    assert (changed["branch"], changed["required_approvals"]) == ("main", 20)
    assert recorded[0].data["changed"] == ["required_approvals"]
    assert recorded[0].data["before"] == {"branch": "main", "required_approvals": 0, **NO_STATUSES}
    assert api(alice).get(one).gives() == changed
    both = api(alice).put(one, branch="trunk", required_approvals=3.0).gives()
    assert (both["branch"], both["required_approvals"]) == ("trunk", 3)


def test_no_other_number_of_approvals_is_asked_for(api, make, team_repo, alice, events):
    protection = make.protection(team_repo, by=alice)
    url, by = paths.protection(protection), access_of(alice, protection.repo)
    with events():
        for wrong in (-1, 21, 10**15, "2", True, None, 1.5):
            sent = {"branch": "x", "required_approvals": wrong}
            answer = api(alice).post(paths.protections(team_repo), **sent)
            assert "required_approvals" in answer.fails(422, "validation_failed"), wrong
            api(alice).put(url, required_approvals=wrong).fails(422, "validation_failed")
        for wrong in (-1, 21):
            for act in (
                lambda n=wrong: create_protection(access=by, branch="x", required_approvals=n),
                lambda n=wrong: update_protection(
                    access=by, protection=protection, required_approvals=n
                ),
            ):
                with pytest.raises(Invalid):
                    act()


def test_one_that_asked_for_more_before_there_was_a_limit_still_does(api, make, repo, alice):
    protection = make.protection(repo, by=alice)
    Protection.objects.update(required_approvals=100)
    changed = api(alice).put(paths.protection(protection), branch="trunk").gives()
    assert (changed["branch"], changed["required_approvals"]) == ("trunk", 100)
    assert not changed["is_satisfiable"]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_protect_the_same_pattern_one_wins(api, team_repo, alice, sam):
    url, callers = paths.protections(team_repo), [api(alice), api(sam)]
    answers = at_once(*(lambda c=caller: c.post(url, branch="main") for caller in callers))
    assert answers == {(201, None): 1, (409, "protection_exists"): 1}
    assert Protection.objects.count() == 1


@pytest.fixture
def fill(team_repo, alice):
    """`fill(n)`: give the repository this many protections."""
    return lambda count: Protection.objects.bulk_create(
        Protection(repo=team_repo, branch=f"b{number}", created_by=alice) for number in range(count)
    )


def test_a_repository_has_a_hundred_protections_at_most(api, team_repo, alice, fill, events):
    """It keeps protections from before the limit."""
    url, (first, second, *_) = paths.protections(team_repo), fill(101)
    with events():
        detail = api(alice).post(url, branch="main").fails(409, "too_many_protections")
    assert "100" in detail
    api(alice).put(paths.protection(first), branch="main").gives()
    api(alice).delete(paths.protection(first)).gives(204)
    api(alice).post(url, branch="main").fails(409, "too_many_protections")
    api(alice).delete(paths.protection(second)).gives(204)
    api(alice).post(url, branch="main").gives(201)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_make_the_last_protection_one_wins(api, team_repo, alice, sam, fill):
    fill(99)
    url = paths.protections(team_repo)
    answers = at_once(
        lambda: api(alice).post(url, branch="main"), lambda: api(sam).post(url, branch="trunk")
    )
    assert answers == {(201, None): 1, (409, "too_many_protections"): 1}
    assert Protection.objects.count() == 100


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("main", ["main"], ["Main", "main/x", "x/main", "mainx"]),
        ("release/*", ["release/1", "release/"], ["release", "release/1/x", "Release/1"]),
        ("*", ["main", "a.b"], ["a/b"]),
        ("*/*", ["a/b"], ["a", "a/b/c"]),
        ("v*.*", ["v1.0", "v.", "v1.2.3"], ["v1", "1.0", "v/1.0"]),
        ("a*a", ["aa", "aba"], ["a", "ab"]),
        ("a*b*a", ["aba", "abba", "aXbXa"], ["aa", "aab"]),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_a_star_stands_for_anything_but_a_slash(pattern, matched, others):
    assert [name for name in [*matched, *others] if glob_matches(pattern, name)] == matched


@given(st.text("ab/", max_size=8), st.text("ab/*", max_size=8))
def test_a_glob_finds_what_trying_everything_finds(name, pattern):
    def tried(pattern: str, name: str) -> bool:
        if not pattern or pattern[0] != "*":
            return pattern[:1] == name[:1] and (not name or tried(pattern[1:], name[1:]))
        here = tried(pattern[1:], name)
        return here or (name[:1] not in ("", "/") and tried(pattern, name[1:]))

    assert glob_matches(pattern, name) == tried(pattern, name)


def test_no_pattern_takes_long():
    assert not glob_matches("*a" * 120, "a" * 254 + "b")
