"""What `serve --demo` fills an empty Guildhall with: people, a repository with history, pulls in
each state and a thread with nested replies. All of it is made by the actions of the API.
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
from apps.repos.access import access_to_owner
from apps.repos.actions import create_repo
from apps.repos.models import BRANCHES, Repo, Visibility
from apps.repos.pushes import open_journal, settle
from apps.repos.rules import ZERO
from apps.teams.access import access_to_team
from apps.teams.actions import add_member, create_team
from apps.teams.models import Role, Team
from apps.threads.actions import create_reply, create_thread, delete_reply
from apps.threads.models import ThreadKind
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
    """Make the example, all or nothing; returns a text with the tokens, which are shown only once.

    Where one of its names is taken it changes nothing.
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
    """Who there is, their tokens, and two lines to paste."""
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
    """The example step by step; each step needs the one before it."""

    def __init__(self, users: Mapping[str, User]) -> None:
        self.alice, self.bob, self.carol, self.dave = (users[name] for name in PEOPLE)
        self.clock = timezone.now() - timedelta(days=3)

    def make(self) -> None:
        """All of it, in order."""
        acme = create_team(by=Principal(self.alice), name="Acme", slug="acme")
        owner = access_to_team(Principal(self.alice), acme)
        add_member(by=owner, user=self.bob, role=Role.MEMBER)
        add_member(by=owner, user=self.carol, role=Role.VIEWER)
        self.repo = create_repo(
            by=access_to_owner(Principal(self.alice), acme),
            name="Hello",
            slug="hello",
            description="Says hello, and shows what Guildhall does.",
            visibility=Visibility.INTERNAL,
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
            actor=self.bob,
            repo=self.repo,
            title="Add a licence",
            body="So that people know what they may do.",
            source_branch="licence",
            target_branch="main",
        )
        create_review(actor=self.alice, pull=pull, status=ReviewStatus.APPROVED, body="Thanks!")
        merge_pull(actor=self.alice, pull=pull)

    def review_names(self) -> None:
        """A pull under review: one objection, answered by another commit."""
        files = {"README.md": README, "hello.py": NAMES, "tests/test_hello.py": TEST}
        head = self.commit(self.bob, "Greet people by name", files, self.second)
        self.push(self.bob, names=head)
        pull = create_pull(
            actor=self.bob,
            repo=self.repo,
            title="Greet people by name",
            body="`greeting()` takes the name now.",
            source_branch="names",
            target_branch="main",
        )
        refused = ReviewStatus.CHANGES_REQUESTED
        create_review(actor=self.alice, pull=pull, status=refused, body="The test does not pass.")
        create_review(actor=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body="Lovely.")
        question = create_reply(
            actor=self.alice, thread=pull.thread, kind="question", body="Did you run the tests?"
        )
        files["tests/test_hello.py"] = NAMES_TEST
        self.push(self.bob, names=self.commit(self.bob, "Follow in the test", files, head))
        create_reply(
            actor=self.bob,
            thread=pull.thread,
            kind="answer",
            body="They pass now.",
            parent_reply_number=question.number,
        )

    def conflict(self) -> None:
        """A draft that changes the line which another pull changes too."""
        files = {"README.md": README, "hello.py": HELLO.replace("Hello!", "HELLO!")}
        files["tests/test_hello.py"] = TEST
        self.push(self.alice, shout=self.commit(self.alice, "Shout", files, self.second))
        pull = create_pull(
            actor=self.alice,
            repo=self.repo,
            title="Shout",
            body="",
            source_branch="shout",
            target_branch="names",
        )
        update_pull(actor=self.alice, pull=pull, status=PullStatus.DRAFT)

    def discuss(self) -> None:
        """A thread in which a deleted reply is still shown above the one that answers it."""
        thread = create_thread(
            actor=self.dave,
            repo=self.repo,
            title="Which language comes next?",
            body="I could help with German.",
            kind=ThreadKind.QUESTION,
        )
        first = create_reply(actor=self.alice, thread=thread, kind="answer", body="German, please!")
        wrong = create_reply(
            actor=self.dave,
            thread=thread,
            kind="comment",
            body="Guten Tag it is, then. Or not?",
            parent_reply_number=first.number,
        )
        create_reply(
            actor=self.bob,
            thread=thread,
            kind="suggestion",
            body="I would say Hallo.",
            parent_reply_number=wrong.number,
        )
        delete_reply(actor=self.dave, reply=wrong)
        create_reply(actor=self.carol, thread=thread, kind="comment", body="And French after that.")

    def commit(self, author: User, message: str, files: Mapping[str, str], *parents: str) -> str:
        """A commit of exactly these files, an hour after the one before."""
        self.clock += timedelta(hours=1)
        return write_commit(
            self.repo.git,
            files,
            parents=parents,
            author=signature(author),
            when=self.clock,
            message=message,
        )

    def push(self, actor: User, **heads: str) -> None:
        """Move branches as a push does: journal, refs, rows."""
        repo: Repo = self.repo
        moves = [
            (BRANCHES + branch, repo.branch_sha(branch) or ZERO, sha)
            for branch, sha in heads.items()
        ]
        push = open_journal(actor=actor, repo=repo, moves=moves)
        for name, old, new in moves:
            repo.git.update_ref(name, new, old)
        settle(repo=repo, push=push)
