"""Example data for `serve --demo`: people, a repository with history, pulls in different states and
a thread with nested replies. The actions of the API make all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.utils import timezone

from apps.accounts.actions import create_token, create_user
from apps.accounts.models import User
from apps.accounts.principal import Principal
from apps.core.views import site_url
from apps.pulls.actions import create_pull, create_review, merge_pull, update_pull
from apps.pulls.models import Pull, PullStatus, ReviewStatus
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
    address = site_url()
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
        alice, bob, carol, _ = users.values()
        acme = create_team(by=Principal(alice), name="Acme", slug="acme")
        space = access_to_team(Principal(alice), acme)
        add_member(by=space, user=bob, role=Role.MEMBER)
        add_member(by=space, user=carol, role=Role.VIEWER)
        self.repo: Repo = create_repo(
            by=space,
            name="Hello",
            slug="hello",
            description="Says hello, and shows what Guildhall does.",
            visibility=Visibility.INTERNAL,
        )
        self.alice, self.bob, self.carol, self.dave = (
            access_to(Principal(user), self.repo) for user in users.values()
        )
        self.clock = timezone.now() - timedelta(days=3)

    def make(self) -> None:
        """Make the history, the pulls and the thread."""
        files = {"README.md": README, "hello.py": HELLO}
        first = self.push(self.alice, "main", "Say hello", files)
        licence = files | {"LICENSE": LICENCE}
        self.push(self.bob, "licence", "Add a licence", licence, first)
        files["test_hello.py"] = TEST
        second = self.push(self.bob, "main", "Test the greeting", files, first)
        self.merge_a_licence()
        self.review_names(files, second)
        self.conflict(files, second)
        self.discuss()

    def merge_a_licence(self) -> None:
        pull = self.open_pull(
            self.bob, "Add a licence", "So that people know their rights.", "licence"
        )
        create_review(by=self.alice, pull=pull, status=ReviewStatus.APPROVED, body="Thanks!")
        merge_pull(by=self.alice, pull=pull)

    def review_names(self, files: Mapping[str, str], parent: str) -> None:
        """A pull under review: changes are requested, and another commit follows."""
        title, refused = "Greet people by name", ReviewStatus.CHANGES_REQUESTED
        files = {**files, "hello.py": NAMES}
        head = self.push(self.bob, "names", title, files, parent)
        pull = self.open_pull(self.bob, title, "`greeting()` takes the name now.", "names")
        create_review(by=self.alice, pull=pull, status=refused, body="The test does not pass.")
        create_review(by=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body="Lovely.")
        reply = partial(create_reply, thread=pull.thread)
        asked = reply(by=self.alice, kind="question", body="Did you run the tests?")
        files["test_hello.py"] = NAMES_TEST
        self.push(self.bob, "names", "Follow in the test", files, head)
        reply(by=self.bob, kind="answer", body="They pass now.", parent_reply_number=asked.number)

    def conflict(self, files: Mapping[str, str], parent: str) -> None:
        """A draft pull that conflicts with the one under review."""
        files = {**files, "hello.py": HELLO.replace("Hello!", "HELLO!")}
        self.push(self.alice, "shout", "Shout", files, parent)
        pull = self.open_pull(self.alice, "Shout", "", "shout", target="names")
        update_pull(by=self.alice, pull=pull, status=PullStatus.DRAFT)

    def discuss(self) -> None:
        """A thread in which a deleted reply is still shown, since a live reply is below it."""
        thread = create_thread(
            by=self.dave,
            title="Which language comes next?",
            body="I could help with German.",
            kind=ThreadKind.QUESTION,
        )
        reply = partial(create_reply, thread=thread)
        first = reply(by=self.alice, kind="answer", body="German, please!")
        body = "Guten Tag it is, then. Or not?"
        wrong = reply(by=self.dave, kind="comment", body=body, parent_reply_number=first.number)
        body = "I would say Hallo."
        reply(by=self.bob, kind="suggestion", body=body, parent_reply_number=wrong.number)
        delete_reply(by=self.dave, reply=wrong)
        reply(by=self.carol, kind="comment", body="And French after that.")

    def open_pull(
        self, by: RepoAccess, title: str, body: str, source: str, target: str = "main"
    ) -> Pull:
        return create_pull(
            by=by, title=title, body=body, source_branch=source, target_branch=target
        )

    def push(
        self, by: RepoAccess, branch: str, message: str, files: Mapping[str, str], *parents: str
    ) -> str:
        """Push a commit of exactly these files, none of them in a folder, and return its name.

        It is dated an hour after the one before. The refs are moved as by any push.
        """
        self.clock += timedelta(hours=1)
        person = signature(by.user)
        who = f"{person.name} <{person.email}> {int(self.clock.timestamp())} +0000"
        blobs = {name: self.write("blob", text.encode()) for name, text in files.items()}
        entries = [
            f"100644 {name}\0".encode() + bytes.fromhex(blobs[name]) for name in sorted(blobs)
        ]
        header = [f"tree {self.write('tree', b''.join(entries))}"]
        header += [*(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
        sha = self.write("commit", "\n".join([*header, "", f"{message}\n"]).encode())
        name, old = BRANCHES + branch, self.repo.branch_sha(branch) or ZERO
        push = open_journal(actor=by.user, repo=self.repo, moves=[(name, old, sha)])
        self.repo.git.update_ref(name, sha, old)
        settle(repo=self.repo, push=push)
        return sha

    def write(self, kind: str, content: bytes) -> str:
        """Store an object in the repository, and return its name."""
        return self.repo.git.git("hash-object", "-t", kind, "-w", "--stdin", stdin=content).word
