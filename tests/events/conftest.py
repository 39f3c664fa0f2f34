"""Servers that can stream, and teams in them that only one test uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from apps.accounts.models import User
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from tests.principals import principal_of, team_access_of
from tests.server import Server

numbers = count(1)


ON_SERVE = pytest.mark.parametrize("server", ["serve"], indirect=True)
"""Selects the embedded server, for a module that needs no other."""


@pytest.fixture
def acme(alice: User, bob: User) -> Team:
    """Team acme, made by an action, which records its event as the API does."""
    team = create_team(principal=principal_of(alice), name="Acme", slug="acme")
    add_member(access=team_access_of(alice, team), user=bob, role=Role.MEMBER)
    return team


@pytest.fixture(scope="session")
def asgi(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """gunicorn's `asgi` worker on the same data."""
    with Server(tmp_path_factory.mktemp("asgi"), "gunicorn-asgi", beside=server) as beside:
        yield beside


@pytest.fixture(params=["serve", pytest.param("asgi", marks=pytest.mark.slow)])
def live(request: pytest.FixtureRequest, server: Server) -> Server:
    """Both servers that can stream, one after the other."""
    if request.param == "serve":
        return server
    asgi_server: Server = request.getfixturevalue("asgi")
    return asgi_server


@dataclass(frozen=True)
class FollowedTeam:
    """A team of alice's with a repository. bob is a member of the team."""

    server: Server
    team: str

    @property
    def scope(self) -> str:
        return f"scope=team:{self.team}"

    @property
    def path(self) -> str:
        return f"/teams/{self.team}"

    @property
    def repo_scope(self) -> str:
        return f"scope=repo:teams/{self.team}/api"

    @property
    def repo(self) -> str:
        return f"{self.path}/repos/api"

    def on(self, server: Server) -> FollowedTeam:
        """The same team on another server with the same data."""
        return FollowedTeam(server, self.team)

    def rename(self, name: str, by: str = "alice") -> None:
        """Record one `team-updated`. Each name has to be new, as otherwise nothing would change."""
        self.server.api(by).put(self.path, name=f"{name} {next(numbers)}", slug=self.team).gives()

    def thread(self, title: str = "One", body: str = "") -> Any:
        """Open a thread; returns its record."""
        api, fields = self.server.api("alice"), {"title": title, "body": body, "kind": "issue"}
        return api.post(f"{self.repo}/threads", **fields).gives(201)

    def describe(self, text: str, **fields: Any) -> None:
        """Record one `repo-updated`."""
        api, text = self.server.api("alice"), f"{text} {next(numbers)}"
        api.put(self.repo, name="Api", slug="api", description=text, **fields).gives()


def make_followed_team(server: Server) -> FollowedTeam:
    followed = FollowedTeam(server, f"team{next(numbers)}")
    alice = server.api("alice")
    alice.post("/teams", name="Team", slug=followed.team).gives(201)
    alice.post(f"{followed.path}/members", username="bob", role="member").gives(201)
    alice.post(f"{followed.path}/repos", name="Api", slug="api").gives(201)
    return followed


@pytest.fixture
def followed(server: Server) -> FollowedTeam:
    """A team that no other test uses."""
    return make_followed_team(server)


@pytest.fixture(scope="session")
def shared(server: Server) -> FollowedTeam:
    """One team for all tests that only change names, and look only at their own events."""
    return make_followed_team(server)
