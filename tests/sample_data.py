"""Sample data for table-driven tests: people, and three repositories of each owner with texts of
zoe.

It is created once and loaded for each module; the changes of a test are rolled back.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.utils import timezone

from apps.accounts.actions import create_token
from apps.accounts.models import ApiToken, User
from apps.pulls.actions import update_pull
from apps.pulls.models import Pull, Review
from apps.repos.models import Protection, Repo, Visibility
from apps.site.models import SiteSettings
from apps.teams.actions import create_team
from apps.teams.models import Role, Team
from apps.threads.anchors import Anchor
from apps.threads.models import Reply, Thread
from tests.api import Api
from tests.by_actions import MakeByActions
from tests.factories import MemberFactory, UserFactory
from tests.gitclient import Clone
from tests.prepared_data import Things
from tests.principals import access_of, principal_of, while_allowed

MEMBERS = {
    "bob": Role.MEMBER,
    "dan": Role.ADMIN,
    "vera": Role.VIEWER,
    "zoe": Role.MEMBER,
    "vic": Role.VIEWER,
    "ada": Role.ADMIN,
    "ina": Role.ADMIN,
    "robot": Role.MEMBER,
}
NOISE = {"last_used_at", "last_seen_at"}
"""Columns that a refused request may change: the use of its token."""


class SampleData:
    """alice owns team acme; carol and newt are strangers, sam is staff, ina is inactive, and robot
    is a bot.
    """

    def __init__(self, make: MakeByActions) -> None:
        self.make = make
        SiteSettings.load()
        self.people = {
            name: UserFactory.create(username=name) for name in ("alice", "carol", "newt", *MEMBERS)
        }
        self.people["sam"] = UserFactory.create(username="sam", staff=True)
        self.alice, self.zoe = self.people["alice"], self.people["zoe"]
        # By the action, because some rows of permissions.csv need the events of tokens.
        for person in self.people.values():
            _, text = create_token(principal=principal_of(person), owner=person, name="tests")
            self.make.tokens[person.pk] = text
        self.acme = create_team(principal=principal_of(self.alice), name="Acme", slug="acme")
        for name, role in MEMBERS.items():
            MemberFactory.create(
                team=self.acme, user=self.people[name], role=role, added_by=self.alice
            )
        User.objects.filter(username="ina").update(is_active=False)
        robot = self.people["robot"]
        robot.is_bot = True
        robot.save(update_fields=["is_bot"])
        # No test should write the use of a token.
        ApiToken.objects.update(last_used_at=timezone.now() + dt.timedelta(days=1))
        self.protections: dict[int, Protection] = {}
        self.threads: dict[int, Thread] = {}
        self.replies: dict[int, Reply] = {}
        self.pulls: dict[int, Pull] = {}
        self.reviews: dict[int, Review] = {}
        self.repos = {
            (kind, visibility): self.make_repo(owner, visibility)
            for kind, owner in (("team", self.acme), ("user", self.alice))
            for visibility in Visibility
        }

    def make_repo(self, owner: Team | User, visibility: Visibility) -> Repo:
        """A repository, named after its visibility, with a thread, a reply, a pull and a review by
        zoe. `main` is protected, with alice as its approver.
        """
        repo = self.make.repo(owner, visibility.value, by=self.alice, visibility=visibility)
        self.protections[repo.pk] = self.make.protection(repo, by=self.alice, approver=self.alice)
        with while_allowed(repo):
            self.threads[repo.pk] = self.make.thread(repo, by=self.zoe)
            self.replies[repo.pk] = self.make.reply(self.threads[repo.pk], by=self.zoe)
            self.pulls[repo.pk] = self.make.pull(repo, by=self.zoe)
            self.reviews[repo.pk] = self.make.review(self.pulls[repo.pk], by=self.zoe)
        return repo

    def mergeable(self, kind: str, folder: Path, *, by: User, before: str = "") -> Pull:
        """A pull in a private repository of its own, with branches that git can merge. `before`:
        the operation for which it is made ready.
        """
        owner = self.acme if kind == "team" else self.alice
        repo = self.make.repo(owner, "mergeable", by=self.alice)
        clone = Clone(folder, repo, self.alice)
        clone.commit("main", {"README": "A place to meet.\n"})
        clone.commit("feature", {"arch": "open\n"}, onto="main")
        clone.push("main", "feature")
        with while_allowed(repo):
            pull = self.make.pull(repo, by=by)
            if before.endswith("/update-branch"):
                clone.push_commit("main", {"gate": "open\n"})
            if before.endswith("/source-branch"):
                update_pull(access=access_of(self.alice, repo), pull=pull, status="closed")
                clone.push(*[":feature"] if before.startswith("PUT") else [])
            return pull

    def suggestion(self, pull: Pull, *, by: User) -> Reply:
        """A comment that suggests to change the file `arch` of a pull of `mergeable`."""
        head = pull.head_sha or "1" * 40
        with while_allowed(pull.repo, by):
            body = "```suggestion\nclosed\n```"
            reply = self.make.reply(pull.thread, by=by, kind="suggestion", body=body)
        Anchor.objects.create(
            reply=reply,
            thread=pull.thread,
            number=reply.number,
            commit_sha=head,
            path=b"arch",
            start_line=1,
            line=1,
            current_commit_sha=head,
            current_path=b"arch",
            current_start_line=1,
            current_line=1,
        )
        return reply

    def api(self, name: str | None) -> Api:
        """A client with the token of this person; anonymous for None."""
        return Api(self.make.token(self.people[name]) if name else None)


def with_sample_data(make: MakeByActions, folder: Path) -> Things:
    """The build of the fixture `sample` (prepared_data.py)."""
    return {"sample": SampleData(make)}


def everything() -> dict[str, list[Any]]:
    """All rows of our models."""
    ours = [model for model in apps.get_models() if model.__module__.startswith("apps.")]
    found = {}
    with connection.cursor() as cursor:
        for model in ours:
            columns = [field.column for field in model._meta.concrete_fields]
            wanted = ", ".join(f'"{column}"' for column in columns if column not in NOISE)
            table = model._meta.db_table
            cursor.execute(f'SELECT {wanted} FROM "{table}" ORDER BY 1')  # noqa: S608 - our own
            found[model.__name__] = cursor.fetchall()
    return found
