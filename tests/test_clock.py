"""A clock that is set forward and back by an hour: nothing is lost, and all work goes on.

The clock of the machine stays. All stored times move instead, which is the same for the server.
Counters of rate limits are in memory: see tests/site/test_counters.py.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.events.conftest import FollowedTeam, make_followed_team
from tests.gitclient import Git
from tests.idempotency.test_servers import post_once
from tests.server import Server
from tests.tail import Stream, opened
from tests.test_health import SIGN_IN
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.once]
THREAD: dict[str, Any] = {"title": "Once", "body": "", "kind": "issue"}
MOVE_TIMES = """
import datetime as dt
from django.apps import apps
from django.db.models import DateTimeField, F
from django.db.transaction import atomic
step = dt.timedelta(seconds={seconds})
with atomic():
    for model in apps.get_models():
        times = [f.name for f in model._meta.concrete_fields if isinstance(f, DateTimeField)]
        if times:
            model._base_manager.update(**{{name: F(name) + step for name in times}})
"""


class Site:
    """A team with a repository, on a server whose clock can be set."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.alice = server, server.api("alice")
        self.team: FollowedTeam = make_followed_team(server)
        address = f"{server.url}{self.team.repo.replace('/repos', '')}.git"
        self.git = Git(folder, address, server.token("alice"))
        self.git.commit("base.txt")
        self.git("push", "--quiet", self.git.url, "main")

    def set_clock(self, seconds: int) -> None:
        """Set the clock forward by so many seconds, or back."""
        self.server.run(MOVE_TIMES.format(seconds=-seconds))

    def works(self, name: str) -> None:
        """A push, a pull, its merge and a fork, which the worker makes."""
        self.git("fetch", "--quiet", self.git.url, "main")
        self.git("checkout", "--quiet", "-B", name, "FETCH_HEAD")
        self.git.commit(f"{name}.txt")
        self.git("push", "--quiet", self.git.url, name)
        wanted = {"title": name, "body": "", "source_branch": name, "target_branch": "main"}
        number = self.alice.post(f"{self.team.repo}/pulls", **wanted).gives(201)["number"]
        self.alice.post(f"{self.team.repo}/pulls/{number}/merge").gives()
        self.alice.post("/teams", name=name, slug=name).gives(201)
        fork = self.alice.post(f"{self.team.repo}/forks?team_slug={name}").gives(201)["uuid"]
        eventually(lambda: self.alice.get(f"/forks/{fork}").gives()["status"] == "completed")

    def is_signed_in(self, cookie: str) -> bool:
        with closing(self.server.connect()) as connection:
            connection.request("GET", "/settings/tokens", headers={"Cookie": cookie})
            return connection.getresponse().status == 200

    def sees_a_thread(self, stream: Stream, title: str) -> None:
        """A new thread comes by the stream; events between are skipped."""
        self.team.thread(title)
        while (frame := stream.next()) and title not in frame.data:
            pass
        assert frame is not None


def test_a_clock_that_is_set_forward_and_back_by_an_hour_loses_nothing(tmp_path, new_server):
    """Tokens end by the clock; sessions, streams, stored answers, jobs and merges go on."""
    with new_server(tmp_path) as server:
        site = Site(server, tmp_path / "work")
        key, threads = str(uuid4()), f"{site.team.repo}/threads"
        first = post_once(site.alice, key, threads, **THREAD).gives(201)
        half = site.alice.post("/api-tokens", name="half", expires_at="30 minutes").gives(201)
        server.tokens["half an hour"] = half["token"]
        cookie = f"sessionid={server.run(SIGN_IN).strip()}"
        with opened(server, "bob", site.team.scope) as stream:
            for step, status in ((3600, 401), (-3600, 200)):
                site.set_clock(step)
                assert server.api("half an hour").get("/users/self").status == status
                assert site.is_signed_in(cookie)
                assert post_once(site.alice, key, threads, **THREAD).gives(201) == first
                site.works(f"after-{status}")
                site.sees_a_thread(stream, f"Thread {status}")
        check_events(site)


def check_events(site: Site) -> None:
    """Events are in the order of their ids, whatever their times, and a stream resumes there."""
    rows = site.alice.get(f"/events?{site.team.scope}&per_page=100").gives()["results"]
    ids = [int(row["id"]) for row in reversed(rows)]
    times = [row["created_at"] for row in reversed(rows)]
    assert ids == sorted(ids) and times != sorted(times)
    query = f"{site.team.scope}&last_event_id={ids[5]}"
    with opened(site.server, "bob", query) as stream:
        assert stream.ids(len(ids) - 6) == ids[6:]
