"""The repository `tide-table`: weeks of history, a fork, protected branches, a pull in each state
and threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils import timezone

from apps.accounts.access import access_to_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.pulls.actions import create_review, merge_pull, update_pull
from apps.pulls.models import Pull, PullStatus, ReviewStatus
from apps.repos.access import RepoAccess
from apps.repos.actions import add_approver, create_fork, create_protection, create_repo
from apps.repos.jobs import make_fork
from apps.repos.models import BRANCHES, TAGS, ForkStatus, Repo, Visibility
from apps.teams.access import TeamAccess
from apps.threads.actions import create_reply
from config.demo import tide_threads
from config.demo.example import Example
from config.demo.objects import File
from config.demo.tide_history import BEFORE_ROUNDING, FORK, MAIN, TOPICS, Step

DAYS = 40
HOURS = 35
"""Between two commits of the default branch, so that they take about a month."""
WIND_REVIEW = """\
`tides/wind.py`, line 12:

```python
    return 0.0007 * speed**2 * towards / depth
```

A depth of 0 divides by zero, and off Gull Island the chart has some. Should it not say so?
"""


class TideTable(Example):
    """The repository, made in steps; each needs the one before it."""

    def __init__(self, space: TeamAccess, users: Mapping[str, User]) -> None:
        repo = create_repo(
            by=space,
            name="Tide table",
            slug="tide-table",
            description="When is high water, and how high? Heights of the tide for a few harbours.",
            visibility=Visibility.PUBLIC,
        )
        super().__init__(repo, users, DAYS)
        self.users = users
        self.main: list[str] = []
        """The commits of the default branch, oldest first."""
        self.files: list[dict[str, File]] = []
        """The files of each."""

    def make(self) -> None:
        """Make the history, the fork, the branches, the pulls and the threads."""
        self.begin()
        copy = self.fork()
        self.branch_off()
        self.protect()
        self.merged()
        self.ready()
        self.conflict()
        self.waiting()
        self.from_fork(copy)
        self.closed()
        self.large()
        tide_threads.discuss(self)

    def begin(self) -> None:
        """Push the default branch, two releases and the branch of one of them."""
        for step in MAIN:
            self.files.append(step.after(self.files[-1] if self.files else {}))
            user, files = self.users[step.by], self.files[-1]
            self.main.append(self.commit(user, step.message, files, *self.main[-1:], hours=HOURS))
        first = next(n for n, step in enumerate(MAIN) if step.message == "Release 1.0")
        said = "The first release\n\nHeights, high and low water, and a page."
        tag = self.objects.tag(self.main[first], "v1.0", self.who(self.users["alice"]), said)
        branches = {"main": self.main[-1], "release/1.0": self.main[first]}
        tags = {TAGS + "v1.0": tag, TAGS + "v1.1": self.main[-1]}
        self.push(self.alice, {BRANCHES + name: sha for name, sha in branches.items()} | tags)

    def fork(self) -> Example:
        """Let dave have a copy, as the worker would make it."""
        dave = self.users["dave"]
        fork = create_fork(by=self.dave, into=access_to_user(Principal(dave), dave))
        token = fork.take(status=ForkStatus.RUNNING, started_at=timezone.now())
        if token is not None:
            make_fork(fork, token)
        fork.refresh_from_db()
        if fork.repo is None:
            raise RuntimeError(f"The fork of the demo was not made: {fork.error}")
        copy = Example(Repo.objects.get(pk=fork.repo.pk), self.users, DAYS)
        copy.objects.known |= self.objects.known
        return copy

    def branch_off(self) -> None:
        """Push the branches of the pulls, all of one person at once."""
        heads: dict[str, dict[str, str]] = {"alice": {}, "bob": {}}
        for name, steps in TOPICS.items():
            start = BEFORE_ROUNDING if name == "millimetres" else -1
            heads[steps[0].by][name] = self.grow(self, start, steps)[-1]
        self.push_branches(self.alice, heads["alice"])
        self.push_branches(self.bob, heads["bob"])

    def grow(self, where: Example, start: int, steps: Iterable[Step]) -> list[str]:
        """The commits of these steps, on top of one of the default branch."""
        files, made = self.files[start], [self.main[start]]
        for step in steps:
            files = step.after(files)
            made.append(where.commit(self.users[step.by], step.message, files, made[-1], hours=9))
        return made[1:]

    def protect(self) -> None:
        """What is merged into the default branch and releases needs bob's approval."""
        for branch in ("main", "release/*"):
            protection = create_protection(by=self.alice, branch=branch)
            add_approver(by=self.alice, protection=protection, user=self.users["bob"])

    def approve(self, pull: Pull, body: str) -> None:
        """Let bob approve."""
        create_review(by=self.bob, pull=pull, status=ReviewStatus.APPROVED, body=body)

    def merged(self) -> None:
        body = "For those who want to know how much water a month can bring."
        pull = self.open_pull(self.alice, "Tell the largest range", body, "spring-tides")
        self.approve(pull, "Short and right.")
        merge_pull(by=self.bob, pull=pull)

    def ready(self) -> None:
        body = (
            "Some charts have feet.\n\n- [x] an option `--feet`\n- [x] the table\n"
            "- [ ] the page, later"
        )
        pull = self.open_pull(self.alice, "Show heights in feet", body, "feet")
        create_review(
            by=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body="I have waited for this."
        )
        self.approve(pull, "Tried it with both harbours.")

    def conflict(self) -> None:
        """A pull that changes the line which the default branch has changed since."""
        body = "The gauge has them, so why throw them away?"
        pull = self.open_pull(self.alice, "Round heights to millimetres", body, "millimetres")
        self.approve(pull, "Fine with me, but look at what was merged yesterday.")

    def waiting(self) -> None:
        """A pull with a review of a line and an answer to it, but without an approval."""
        body = "A rule of thumb: twice the wind, four times the surge. @bob, does it fit the gauge?"
        pull = self.open_pull(self.alice, "Estimate the surge", body, "wind")
        create_review(by=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body=WIND_REVIEW)
        asked = self.reply(
            self.carol, pull, "question", "What does it give for a depth of 0, as on the bar?"
        )
        answer = "An error, for now. I would rather refuse a depth below one metre."
        answered = self.reply(self.alice, pull, "answer", answer, asked)
        self.reply(self.carol, pull, "comment", "Good. Then say so in the docstring.", answered)

    def reply(
        self, by: RepoAccess, pull: Pull, kind: str, body: str, parent: int | None = None
    ) -> int:
        """Reply in a pull's thread; returns the number."""
        reply = create_reply(
            by=by, thread=pull.thread, kind=kind, body=body, parent_reply_number=parent
        )
        return reply.number

    def from_fork(self, copy: Example) -> None:
        """A pull that began as a draft, and has another version since it was approved."""
        copy.clock = self.clock
        first, second = self.grow(copy, -1, FORK)
        copy.push_branches(copy.dave, {"amber-quay": first})
        pull = self.open_pull(
            self.dave,
            "Measure Amber Quay anew",
            "Three months with a new gauge. The moon's part is two centimetres larger.",
            "dave:amber-quay",
            status=PullStatus.DRAFT,
        )
        update_pull(by=self.dave, pull=pull, status=PullStatus.OPEN)
        self.approve(pull, "Thank you for three months of patience!")
        copy.push_branches(copy.dave, {"amber-quay": second})

    def closed(self) -> None:
        body = "Half the size."
        pull = self.open_pull(self.bob, "Leave the harbours out of the image", body, "small-image")
        refused = "Half of 4 KB, and nobody can run it without a volume."
        create_review(by=self.alice, pull=pull, status=ReviewStatus.CHANGES_REQUESTED, body=refused)
        update_pull(by=self.bob, pull=pull, status=PullStatus.CLOSED)

    def large(self) -> None:
        """A pull of many files."""
        body = "From *Aldern* to *Yarrow*. The numbers are invented, as everywhere."
        self.open_pull(self.alice, "Add the harbours of the north coast", body, "north-coast")
