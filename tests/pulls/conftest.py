"""Fixtures for pulls: repositories that strangers can read, a clone, pulls with and without
commits.

Tests of addresses run for repositories of a team and of a person, and push nothing. Tests of git
run for a repository of a team. The initial state is created once and copied for each test
(tests/prepared_data.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.pulls.models import Pull
from apps.repos.models import Protection, Repo, Visibility
from tests import prepared_data
from tests.by_actions import MakeByActions
from tests.gitclient import Clone
from tests.prepared_data import Things, given, with_people
from tests.pulls import forks, push_hook


def with_repo(make: MakeByActions, folder: Path) -> Things:
    """A private repository of the team."""
    things = with_people(make, folder)
    return things | {"team_repo": make.repo(things["acme"], "api", by=things["alice"])}


def with_clone(make: MakeByActions, folder: Path) -> Things:
    """alice's clone of the team's repository, which is internal; `main` is pushed."""
    things = with_repo(make, folder)
    clone = Clone(folder / "clone", opened(things["team_repo"]), things["alice"])
    clone.push_commit("main", {"README": "A place to meet.\n"}, message="begin")
    return things | {"clone": clone}


def with_pull(make: MakeByActions, folder: Path) -> Things:
    """alice's pull from her branch `feature`, which is one commit ahead of `main`."""
    things = with_clone(make, folder)
    clone: Clone = things["clone"]
    clone.push_commit("feature", {"arch": "open\n"}, onto="main", message="add an arch")
    return things | {"pull": make.pull(clone.repo, by=things["alice"], title="Add an arch")}


things = prepared_data.things


BUILDS = {"pull": with_pull, "clone": with_clone, "team_repo": with_repo, "repo": with_repo}


@pytest.fixture
def builds(request: pytest.FixtureRequest) -> Any:
    """For tests that use `upstream`, `clone` is of carol's fork of it, and `pull` comes from it."""
    return forks.BUILDS if "upstream" in request.fixturenames else BUILDS


alice, bob, carol, sam, acme = map(given, ("alice", "bob", "carol", "sam", "acme"))
team_repo, clone, pull = map(given, ("team_repo", "clone", "pull"))
upstream, fork = map(given, ("upstream", "fork"))


@pytest.fixture(params=["team", pytest.param("user", marks=[pytest.mark.slow, pytest.mark.once])])
def repo(request: pytest.FixtureRequest, things: Things, make: MakeByActions) -> Any:
    """A repository of a team, or alice's own."""
    if request.param == "user":
        return make.repo(things["alice"], "api", by=things["alice"])
    return things["team_repo"]


@pytest.fixture
def open_repo(repo: Repo) -> Repo:
    """`repo`, but internal: carol, a stranger, can read it."""
    return opened(repo)


@pytest.fixture
def bare_pull(make: MakeByActions, open_repo: Repo, carol: User) -> Pull:
    """A pull by carol, who has read access only, from a branch that does not exist."""
    return make.pull(open_repo, by=carol, title="Widen the gate", body="It is narrow.")


@pytest.fixture
def protection(make: MakeByActions, pull: Pull, alice: User) -> Protection:
    """`main` is protected and names no approvers: everybody with write access may approve. A
    clone's push bypasses the check.
    """
    return make.protection(pull.repo, by=alice)


@pytest.fixture
def second(make: MakeByActions, clone: Clone, alice: User) -> Pull:
    """Another pull into `main`."""
    clone.push_commit("topic", {"gate": "open\n"}, onto="main")
    return make.pull(clone.repo, by=alice, source="topic")


@pytest.fixture
def last_moment(settings: Any) -> Iterator[Callable[[Callable[[], object]], None]]:
    """`last_moment(call)` calls it between a merge's plan and its final transaction."""
    settings.AFTER_PUSH = ["tests.pulls.push_hook", *settings.AFTER_PUSH]
    yield push_hook.preparing.append
    push_hook.preparing.clear()


def opened(repo: Repo) -> Repo:
    repo.visibility = Visibility.INTERNAL
    repo.save(update_fields=["visibility"])
    return repo
