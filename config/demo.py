"""Example data for `serve --demo`: people, a repository with history, pulls in different states and
a thread with nested replies. The actions of the API make all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.pulls.actions import create_pull, create_review, merge_pull, update_pull
from apps.pulls.models import PullStatus, ReviewStatus
from apps.pulls.rules import signature
from apps.repos.access import RepoAccess, access_to
from apps.repos.actions import create_repo
from apps.repos.models import BRANCHES, Repo, Visibility
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from apps.teams.access import access_to_team
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from apps.threads.actions import create_reply, create_thread, delete_reply
from apps.threads.kinds import ThreadKind
from config.demo_commits import write_commit

PEOPLE = {
    "alice": "owns team acme",
    "bob": "is a member of it",
    "carol": "is a viewer there",
    "dave": "is a stranger",
}
README = "# hello\n\nSays hello.\n"
HELLO = 'def greeting():\n    return "Hello!"\n'
TEST = 'from hello import greeting\n\n\ndef test_greeting():\n    assert greeting() == "Hello!"\n'
NAMES = 'def greeting(name):\n    return f"Hello, {name}!"\n'
NAMES_TEST = TEST.replace("greeting()", 'greeting("Ada")').replace("Hello!", "Hello, Ada!")
LICENCE = "Do with it what you like.\n"


def load() -> str:
    """Make the example data in one transaction; returns a text with the tokens of its people.

    The tokens can be shown only now. If one of the names is taken, nothing is changed.
    """
    people = User.objects.filter(username_key__in=PEOPLE).values_list("username", flat=True)
    teams = Team.objects.filter(slug="acme").values_list("slug", flat=True)
    taken = [*people, *teams]
    if taken:
        return f"The demo is not loaded (again): there is {', '.join(taken)} already.\n"
    with transaction.atomic():
        users = {name: create_user(by=None, username=name) for name in PEOPLE}
        tokens = {
            name: create_token(by=None, owner=user, name="demo")[1] for name, user in users.items()
        }
        Example(users).make()
    return summary(tokens)


def summary(tokens: Mapping[str, str]) -> str:
    """A text that names the people and their tokens, and two commands to try."""
    address = settings.BASE_URL or f"http://{settings.HOST}:{settings.PORT}"
    scheme, _, host = address.partition("://")
    token = tokens["alice"]
    lines = ["The demo is loaded. Its people and their tokens, shown this once:"]
    lines += [f"    {name:6} {tokens[name]}  {PEOPLE[name]}" for name in PEOPLE]
    lines += ["Look around as alice:"]
    lines += [f"    curl -H 'Authorization: Bearer {token}' {address}/api/v1/teams/acme/repos"]
    lines += [f"    git clone {scheme}://alice:{token}@{host}/teams/acme/hello.git"]
    return "\n".join([*lines, ""])


class Example:
    """The example data, made in steps; each needs the one before it."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self.users = [users[name] for name in PEOPLE]
        self.clock = timezone.now() - timedelta(days=3)

    def make(self) -> None:
        """Make all of it."""
        alice, bob, carol, _ = self.users
        acme = create_team(by=Principal(alice), name="Acme", slug="acme")
        space = access_to_team(Principal(alice), acme)
        add_member(by=space, user=bob, role=Role.MEMBER)
        add_member(by=space, user=carol, role=Role.VIEWER)
        self.repo = create_repo(
            by=space,
            name="Hello",
            slug="hello",
            description="Says hello, and shows what Guildhall does.",
            visibility=Visibility.INTERNAL,
        )
        self.alice, self.bob, self.carol, self.dave = (
            access_to(Principal(user), self.repo) for user in self.users
        )
        self.push_main()
        self.merge_a_licence()
        self.review_names()
        self.conflict()
        self.discuss()

    def push_main(self) -> None:
        self.first = self.commit(self.alice, "Say hello", {"README.md": README, "hello.py": HELLO})
        files = {"README.md": README, "hello.py": HELLO, "tests/test_hello.py": TEST}
        self.second = self.commit(self.bob, "Test the greeting", files, self.first)
        self.push(self.alice, main=self.second)

    def merge_a_licence(self) -> None:
        files = {"README.md": README, "hello.py": HELLO, "LICENSE": LICENCE}
        head = self.commit(self.bob, "Add a licence", files, self.first)
        self.push(self.bob, licence=head)
        pull = create_pull(
            by=self.bob,
            title="Add a licence",
            body="So that people know what they may do.",
            source_branch="licence",
            target_branch="main",
        )
        create_review(by=self.alice, pull=pull, status=ReviewStatus.APPROVED, body="Thanks!")
        merge_pull(by=self.alice, pull=pull)

    def review_names(self) -> None:
        """A pull under review: changes are requested, and another commit follows."""
        files = {"README.md": README, "hello.py": NAMES, "tests/test_hello.py": TEST}
        head = self.commit(self.bob, "Greet people by name", files, self.second)
        self.push(self.bob, names=head)
        pull = create_pull(
            by=self.bob,
            title="Greet people by name",
            body="`greeting()` takes the name now.",
            source_branch="names",
            target_branch="main",
        )
        refused = ReviewStatus.CHANGES_REQUESTED
        create_review(by=self.alice, pull=pull, status=refused, body="The test does not pass.")
        create_review(by=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body="Lovely.")
        question = create_reply(
            by=self.alice, thread=pull.thread, kind="question", body="Did you run the tests?"
        )
        files["tests/test_hello.py"] = NAMES_TEST
        self.push(self.bob, names=self.commit(self.bob, "Follow in the test", files, head))
        create_reply(
            by=self.bob,
            thread=pull.thread,
            kind="answer",
            body="They pass now.",
            parent_reply_number=question.number,
        )

    def conflict(self) -> None:
        """A draft pull that conflicts with the one under review."""
        files = {"README.md": README, "hello.py": HELLO.replace("Hello!", "HELLO!")}
        files["tests/test_hello.py"] = TEST
        self.push(self.alice, shout=self.commit(self.alice, "Shout", files, self.second))
        pull = create_pull(
            by=self.alice,
            title="Shout",
            body="",
            source_branch="shout",
            target_branch="names",
        )
        update_pull(by=self.alice, pull=pull, status=PullStatus.DRAFT)

    def discuss(self) -> None:
        """A thread in which a deleted reply is still shown, since a live reply is below it."""
        thread = create_thread(
            by=self.dave,
            title="Which language comes next?",
            body="I could help with German.",
            kind=ThreadKind.QUESTION,
        )
        first = create_reply(by=self.alice, thread=thread, kind="answer", body="German, please!")
        wrong = create_reply(
            by=self.dave,
            thread=thread,
            kind="comment",
            body="Guten Tag it is, then. Or not?",
            parent_reply_number=first.number,
        )
        create_reply(
            by=self.bob,
            thread=thread,
            kind="suggestion",
            body="I would say Hallo.",
            parent_reply_number=wrong.number,
        )
        delete_reply(by=self.dave, reply=wrong)
        create_reply(by=self.carol, thread=thread, kind="comment", body="And French after that.")

    def commit(self, by: RepoAccess, message: str, files: Mapping[str, str], *parents: str) -> str:
        """Write a commit with exactly these files, dated an hour after the previous one."""
        self.clock += timedelta(hours=1)
        return write_commit(
            self.repo.git,
            files,
            parents=parents,
            author=signature(by.user),
            when=self.clock,
            message=message,
        )

    def push(self, by: RepoAccess, **heads: str) -> None:
        """Move branches as a push does: store the journal, move the refs, update the rows."""
        repo: Repo = self.repo
        moves = [
            (BRANCHES + branch, repo.branch_sha(branch) or ZERO, sha)
            for branch, sha in heads.items()
        ]
        push = open_journal(actor=by.user, repo=repo, moves=moves)
        for name, old, new in moves:
            repo.git.update_ref(name, new, old)
        settle(repo=repo, push=push)
