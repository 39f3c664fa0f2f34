"""People who work on a site at the same time, while its processes die and come back.

Each remembers what they were told: a push that git has reported, a merge and a fork that the API
has answered. What is then true on the site is `facts.py`'s part.
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
"""What a client meets whose server has died."""
REPORTED = re.compile(r"^[ +*-]\t([0-9a-f]*):(refs/\S+)\t", re.MULTILINE)
"""A line of `git push --porcelain` for a ref that has moved."""
CUT = re.compile(
    r"unable to access|RPC failed|hung up|early EOF|remote failed to report|unexpected disconnect"
    r"|Authentication failed"  # so git says when the server dies after it has asked who is there
)
BEHIND = re.compile(r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to update ref")


class Told(NamedTuple):
    """A ref of a repository stands at `sha` now, or is gone (`ZERO`): so said git or the API."""

    repo: str
    ref: str
    sha: str


class Place:
    """The site as its people know it: where it is today, and what they share."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.up = Event()
        self.over = Event()
        self.slug = "engine"
        self.uuid = ""
        self.seed = ""
        self.forks: list[str] = []

    def build(self, folder: Path) -> None:
        """A team whose repository is large enough that a copy takes a moment."""
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
    """Does one thing after the other until the place is `over`, whatever dies meanwhile."""

    def __init__(self, place: Place, name: str, folder: Path, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.place = place
        self.random = Random(f"{seed} {name}")  # noqa: S311
        self.git = Git(folder, "", None)
        self.git("fetch", "--quiet", self.url(place.path), "main")
        self.heads = dict.fromkeys(("main", "own", "other"), place.seed)
        self.told: list[Told] = []
        self.fork: tuple[str, str] | None = None
        self.count: Counter[str] = Counter()
        self.number = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.place.over.is_set():
                if self.place.up.wait(PATIENCE):
                    with suppress(*GONE):
                        self.random.choices(ACTIONS, WEIGHTS)[0](self)
        except BaseException as failure:  # the test raises it
            self.failure = failure

    def url(self, path: str) -> str:
        address = self.place.server.url.replace("://", f"://any:{self.token}@")
        return f"{address}/{path}.git"

    @property
    def token(self) -> str:
        return self.place.server.token(self.name)

    def next(self, word: str) -> str:
        self.number += 1
        return f"{word}-{self.name}-{self.number}"

    def commit(self, parent: str) -> str:
        self.git("checkout", "--quiet", "--force", "--detach", parent)
        return self.git.commit(f"{self.name}-{self.random.randrange(20)}.txt")

    def push(self, repo: str, path: str, *specs: str, force: bool = False) -> bool:
        """Push, and remember what git has reported; True when that is everything."""
        options = ["--porcelain", *(["--force"] if force else [])]
        done = self.git.run("push", *options, self.url(path), *specs)
        moved = REPORTED.findall(done.stdout)
        self.told += [Told(repo, ref, sha or ZERO) for sha, ref in moved]
        self.count["refs moved"] += len(moved)
        if done.returncode:
            self.refused(done.stdout)
        return done.returncode == 0

    def refused(self, said: str) -> None:
        """A push fails because the server has died or somebody was first, and never else."""
        if CUT.search(said) and "error: 500" not in said:
            self.count["pushes cut off"] += 1
        elif BEHIND.search(said):
            self.count["pushes too late"] += 1
        else:
            raise AssertionError(said)

    def push_here(self, *specs: str, force: bool = False) -> bool:
        return self.push(self.place.uuid, self.place.path, *specs, force=force)

    # What people do

    def move_on(self) -> None:
        """A commit on a branch of one's own."""
        self.heads["own"] = self.commit(self.heads["own"])
        self.push_here(f"{self.heads['own']}:refs/heads/{self.name}")

    def push_several(self) -> None:
        """Two branches and a tag at once."""
        own, other = (self.commit(self.heads[name]) for name in ("own", "other"))
        self.heads.update(own=own, other=other)
        names = (f"heads/{self.name}", f"heads/{self.name}-other", f"tags/{self.next('v')}")
        self.push_here(
            *(f"{sha}:refs/{name}" for sha, name in zip((own, other, own), names, strict=True))
        )

    def force(self) -> None:
        """Throw the branch's history away."""
        self.heads["own"] = self.commit(self.place.seed)
        self.push_here(f"{self.heads['own']}:refs/heads/{self.name}", force=True)

    def delete(self) -> None:
        self.heads["other"] = self.place.seed
        done = self.git.run("ls-remote", self.url(self.place.path), f"{self.name}-other")
        if f"refs/heads/{self.name}-other" in done.stdout:
            self.push_here(f":refs/heads/{self.name}-other")

    def share(self) -> None:
        """A commit on the branch that everybody pushes to."""
        if self.fetch_main():
            self.push_here(f"{self.commit(self.heads['main'])}:refs/heads/main")

    def fetch_main(self) -> bool:
        done = self.git.run("fetch", "--quiet", self.url(self.place.path), "main")
        if done.returncode:
            self.refused(done.stdout)
            return False
        self.heads["main"] = self.git("rev-parse", "FETCH_HEAD")
        return True

    def merge(self) -> None:
        """A topic branch, its pull, what that lacks, and the merge."""
        topic = self.next("topic")
        if not self.fetch_main():
            return
        if not self.push_here(f"{self.commit(self.heads['main'])}:refs/heads/{topic}"):
            return
        api, pulls = self.api, f"{self.place.api_path}/pulls"
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
        self.told.append(Told(self.place.uuid, "refs/heads/main", merged.json["merge_commit_sha"]))

    def make_fork(self) -> None:
        """A copy into a new team."""
        team = self.next("team")
        made = self.api.post("/teams", name=team, slug=team)
        if made.status != 201:
            return self.check(made, {503})
        asked = self.api.post(f"{self.place.api_path}/forks?team_slug={team}")
        if asked.status != 201:
            return self.check(asked, {404, 503})
        self.place.forks.append(asked.json["uuid"])
        self.count["forks"] += 1

    def push_to_fork(self) -> None:
        """To whatever fork is complete: another history for `main`, and a branch."""
        if not self.place.forks:
            return
        fork = self.api.get(f"/forks/{self.random.choice(self.place.forks)}").json
        if fork["status"] != "completed" or fork["created_by_username"] != self.name:
            return
        path = fork["repo_path"]
        _, team, slug = path.split("/")
        found = self.api.get(f"/teams/{team}/repos/{slug}")
        sha = self.commit(self.place.seed)
        specs = (f"{sha}:refs/heads/main", f"{sha}:refs/heads/{self.next('x')}")
        self.push(found.gives()["uuid"], path, *specs, force=True)

    def rename(self) -> None:
        """One person's business, or nobody would know the name. A clone checks out another branch
        from then on.
        """
        if self.name != "alice":
            return
        before, slug = self.place.slug, self.next("engine")
        body = {
            "name": "Engine",
            "slug": slug,
            "default_branch": ("main", "alice")[self.number % 2],
        }
        answer = self.api.put(f"{HOME}/repos/{before}", **body)
        if answer.status == 200:
            self.place.slug = slug
            self.count["renames"] += 1
        else:
            self.check(answer, {404, 422, 503})

    @property
    def api(self) -> Any:
        return self.place.server.api(self.name)

    def check(self, answer: Any, expected: set[int]) -> None:
        """The answer is one of those that others' work or a crash explains."""
        assert answer.status in expected, f"{answer.status} {answer.json}"
        self.count[f"answers {answer.status}"] += 1
        if answer.status in {301, 404}:
            # renamed, and perhaps nobody was told
            for repo in self.api.get(f"{HOME}/repos").gives()["results"]:
                self.place.slug = repo["slug"]


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
