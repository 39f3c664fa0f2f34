"""Names in addresses."""

from __future__ import annotations

import re

import pytest

from apps.core.slugs import CONVERTERS, repo_slug_problem, team_slug_problem, username_problem

TEAMS = {"a", "7", "acme", "acme-2", "a.b_c-d", "x" * 64}
USERNAMES = {"a", "Alice", "o.Brien-2", "x" * 39}
REPOS = {"a", "-", "_x", "a..b", ".github", "a.git.b", "x" * 100, "lock"}
NEVER = {"", " ", "a b", "a/b", "a\n", "\na", "a\0", "ä", "\u0663", "self", "new", "a:b", "a@b"}
NO_TEAM = NEVER | {"Acme", "-a", "a-", "a--b", "a.-b", "_", "x" * 65, ".", ".."}
NO_USERNAME = NEVER | {"-a", "a-", "a..b", "New", "SELF", "x" * 40, "."}
NO_REPO = NEVER | {"API", ".", "..", "a.git", "a.lock", "a.atom", ".git", "x" * 101}


@pytest.mark.parametrize(
    ("problem", "good", "bad"),
    [
        (team_slug_problem, TEAMS, NO_TEAM),
        (username_problem, USERNAMES, NO_USERNAME),
        (repo_slug_problem, REPOS, NO_REPO),
    ],
)
def test_a_name_is_fine_or_told_what_is_wrong(problem, good, bad):
    assert [name for name in sorted(good) if problem(name)] == []
    assert [name for name in sorted(bad) if not problem(name)] == []


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("/teams/ACME", "team"),
        ("/teams/acme/members/ALICE", "member"),
        ("/teams/Acme/repos/PRIVATE", "repo"),
        ("/users/ALICE/repos/Private", "repo"),
        ("/users/alice/repos/private/threads/1", "thread"),
    ],
)
def test_an_address_answers_in_any_case_with_the_stored_spelling(address, kind, sample, db):
    found = sample.api("alice").get(address).gives()
    names = {"team": "acme", "member": "alice", "repo": "private"}
    assert kind == "thread" or names[kind] in {found.get("slug"), found.get("username")}


def test_no_pattern_but_that_of_paths_crosses_a_slash():
    """Tests with a path end with it."""
    texts = ["a/b", "/", "1/2", "a/", "1/"]
    crossing = {
        name
        for name, converter in CONVERTERS.items()
        if any(re.fullmatch(converter.regex, text) for text in texts)
    }
    assert crossing == {"tree_path"}
    assert re.fullmatch(CONVERTERS["tree_path"].regex, "a\n/b")
