"""People who work on a site concurrently, while its processes are killed and restarted.

Each person stores the results that git or the API reported: pushes, merges and forks. `facts.py`
reads the state of the site to compare them with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, NamedTuple

from apps.repos.rules import ZERO
from tests.gitclient import Git
from tests.server import PATIENCE, Server

HOME = "/teams/crew"
GONE = (OSError, HTTPException)
"""The errors of a client whose server dies."""
REPORTED = re.compile(r"^[ +*-]\t([0-9a-f]*):(refs/\S+)\t", re.MULTILINE)
"""A line of `git push --porcelain` for an updated ref."""
CUT = re.compile(
    r"unable to access|RPC failed|hung up|early EOF|remote failed to report|unexpected disconnect"
    r"|Authentication failed"  # git's message if the server dies after the 401
)
BEHIND = re.compile(r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to update ref")


class RefUpdate(NamedTuple):
    """A ref update that git or the API reported: the ref is at `sha` now; `ZERO`: it is deleted."""

    repo: str
    ref: str
    sha: str


class SharedState:
    """The state that all people share: the server, and the current address of the repository."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.up = Event()
        self.done = Event()
        self.slug = "engine"
        self.uuid = ""
        self.seed = ""
        self.forks: list[str] = []

    def build(self, folder: Path) -> None:
        """Create a team and a repository that is large enough for a fork to take a moment."""
        alice = self.server.api("alice")
        alice.post("/teams", name="Crew", slug="crew").gives(201)
        for name in ("bob", "carol"):
            alice.post(f"{HOME}/members", username=name, role="member").gives(201)
        body = {"name": "Engine", "slug": self.slug, "visibility": "internal"}
        self.uuid = alice.post(f"{HOME}/repos", **body).gives(201)["uuid"]
        token = self.server.token("alice")
        git = Git(folder, f"{self.server.url}/{self.path}.git", token)
        random = Random(folder.name)  # noqa: S311 - noise, no secret
        for number in range(10):
            (folder / f"noise-{number}").write_bytes(random.randbytes(300_000))
        self.seed = git.commit()
        git("push", "--quiet", git.url, f"{self.seed}:refs/heads/main")

    @property
    def path(self) -> str:
        return f"teams/crew/{self.slug}"

    @property
    def api_path(self) -> str:
        return f"{HOME}/repos/{self.slug}"


class Person(Thread):
    """Performs one action after the other until the shared state is `done`."""

    def __init__(self, state: SharedState, name: str, folder: Path, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.state = state
        self.random = Random(f"{seed} {name}")  # noqa: S311
        self.git = Git(folder, "", None)
        self.git("fetch", "--quiet", self.url(state.path), "main")
        self.heads = dict.fromkeys(("main", "own", "other"), state.seed)
        self.reported: list[RefUpdate] = []
        self.fork: tuple[str, str] | None = None
        self.count: Counter[str] = Counter()
        self.number = 0
        self.is_idle = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.state.done.is_set():
                self.is_idle = True
                if self.state.up.wait(PATIENCE):
                    self.is_idle = False
                    with suppress(*GONE):
                        self.act()
        except BaseException as failure:  # the test raises it
            self.failure = failure

    def act(self) -> None:
        self.random.choices(ACTIONS, WEIGHTS)[0](self)

    def url(self, path: str) -> str:
        address = self.state.server.url.replace("://", f"://any:{self.token}@")
        return f"{address}/{path}.git"

    @property
    def token(self) -> str:
        return self.state.server.token(self.name)

    def next(self, word: str) -> str:
        self.number += 1
        return f"{word}-{self.name}-{self.number}"

    def commit(self, parent: str) -> str:
        self.git("checkout", "--quiet", "--force", "--detach", parent)
        return self.git.commit(f"{self.name}-{self.random.randrange(20)}.txt")

    def push(self, repo: str, path: str, *specs: str, force: bool = False) -> bool:
        """Push, and store the updates that git reports; True if git succeeds."""
        options = ["--porcelain", *(["--force"] if force else [])]
        result = self.git.run("push", *options, self.url(path), *specs)
        moved = REPORTED.findall(result.stdout)
        self.reported += [RefUpdate(repo, ref, sha or ZERO) for sha, ref in moved]
        self.count["refs moved"] += len(moved)
        if result.returncode:
            self.check_failure(result.stdout)
        return result.returncode == 0

    def check_failure(self, output: str) -> None:
        """Check that git failed because the server died, or because somebody else pushed first."""
        if CUT.search(output) and "error: 500" not in output:
            self.count["pushes cut off"] += 1
        elif BEHIND.search(output):
            self.count["pushes too late"] += 1
        else:
            raise AssertionError(output)

    def push_here(self, *specs: str, force: bool = False) -> bool:
        return self.push(self.state.uuid, self.state.path, *specs, force=force)

    # The actions of people

    def move_on(self) -> None:
        """Push a commit to the person's own branch."""
        self.heads["own"] = self.commit(self.heads["own"])
        self.push_here(f"{self.heads['own']}:refs/heads/{self.name}")

    def push_several(self) -> None:
        """Push two branches and a tag together."""
        own, other = (self.commit(self.heads[name]) for name in ("own", "other"))
        self.heads.update(own=own, other=other)
        names = (f"heads/{self.name}", f"heads/{self.name}-other", f"tags/{self.next('v')}")
        self.push_here(
            *(f"{sha}:refs/{name}" for sha, name in zip((own, other, own), names, strict=True))
        )

    def force(self) -> None:
        """Replace the history of the own branch."""
        self.heads["own"] = self.commit(self.state.seed)
        self.push_here(f"{self.heads['own']}:refs/heads/{self.name}", force=True)

    def delete(self) -> None:
        self.heads["other"] = self.state.seed
        done = self.git.run("ls-remote", self.url(self.state.path), f"{self.name}-other")
        if f"refs/heads/{self.name}-other" in done.stdout:
            self.push_here(f":refs/heads/{self.name}-other")

    def share(self) -> None:
        """Push a commit to `main`, to which everybody pushes."""
        if self.fetch_main():
            self.push_here(f"{self.commit(self.heads['main'])}:refs/heads/main")

    def fetch_main(self) -> bool:
        result = self.git.run("fetch", "--quiet", self.url(self.state.path), "main")
        if result.returncode:
            self.check_failure(result.stdout)
            return False
        self.heads["main"] = self.git("rev-parse", "FETCH_HEAD")
        return True

    def merge(self) -> None:
        """Push a topic branch, open its pull, and merge it."""
        topic = self.next("topic")
        if not self.fetch_main():
            return
        if not self.push_here(f"{self.commit(self.heads['main'])}:refs/heads/{topic}"):
            return
        api, pulls = self.api, f"{self.state.api_path}/pulls"
        body = {"title": topic, "body": "", "source_branch": topic, "target_branch": "main"}
        opened = api.post(pulls, **body)
        if opened.status != 201:
            return self.check(opened, {404, 503})
        pull = f"{pulls}/{opened.json['number']}"
        self.check(api.get(f"{pull}/protection"), {200, 301, 503})
        merged = api.post(f"{pull}/merge", merge_strategy=self.random.choice(["merge", "squash"]))
        if merged.status != 200:
            return self.check(merged, {404, 409, 503})
        self.count["merges"] += 1
        sha = merged.json["merge_commit_sha"]
        self.reported.append(RefUpdate(self.state.uuid, "refs/heads/main", sha))

    def make_fork(self) -> None:
        """Fork the repository into a new team."""
        team = self.next("team")
        made = self.api.post("/teams", name=team, slug=team)
        if made.status != 201:
            return self.check(made, {503})
        fork = self.api.post(f"{self.state.api_path}/forks?team_slug={team}")
        if fork.status != 201:
            return self.check(fork, {404, 503})
        self.state.forks.append(fork.json["uuid"])
        self.count["forks"] += 1

    def push_to_fork(self) -> None:
        """Push another history of `main`, and a branch, to a completed fork of this person."""
        if not self.state.forks:
            return
        fork = self.api.get(f"/forks/{self.random.choice(self.state.forks)}").json
        if fork["status"] != "completed" or fork["created_by_username"] != self.name:
            return
        path = fork["repo_path"]
        _, team, slug = path.split("/")
        forked_repo = self.api.get(f"/teams/{team}/repos/{slug}")
        sha = self.commit(self.state.seed)
        specs = (f"{sha}:refs/heads/main", f"{sha}:refs/heads/{self.next('x')}")
        self.push(forked_repo.gives()["uuid"], path, *specs, force=True)

    def rename(self) -> None:
        """Rename the repository and change its default branch.

        Only alice does so, because with two people nobody would know the current name.
        """
        if self.name != "alice":
            return
        before, slug = self.state.slug, self.next("engine")
        body = {
            "name": "Engine",
            "slug": slug,
            "default_branch": ("main", "alice")[self.number % 2],
        }
        answer = self.api.put(f"{HOME}/repos/{before}", **body)
        if answer.status == 200:
            self.state.slug = slug
            self.count["renames"] += 1
        else:
            self.check(answer, {404, 422, 503})

    @property
    def api(self) -> Any:
        return self.state.server.api(self.name)

    def check(self, answer: Any, expected: set[int]) -> None:
        """Check that other people's work, or a crash, explains the status of the response."""
        assert answer.status in expected, f"{answer.status} {answer.json}"
        self.count[f"answers {answer.status}"] += 1
        if answer.status in {301, 404}:
            # The repository has been renamed, perhaps by a request whose response was lost.
            for repo in self.api.get(f"{HOME}/repos").gives()["results"]:
                self.state.slug = repo["slug"]


ACTIONS: tuple[Callable[[Person], None], ...] = (
    Person.move_on,
    Person.push_several,
    Person.force,
    Person.delete,
    Person.share,
    Person.merge,
    Person.make_fork,
    Person.push_to_fork,
    Person.rename,
)
WEIGHTS = (4, 4, 2, 2, 3, 2, 2, 2, 2)
