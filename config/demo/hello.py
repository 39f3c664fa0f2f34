"""The repository `hello`: a few flat files, three pulls and a question."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from apps.accounts.models import User
from apps.pulls.actions import create_review, merge_pull, update_pull
from apps.pulls.models import PullStatus, ReviewStatus
from apps.repos.access import RepoAccess
from apps.repos.actions import create_repo
from apps.repos.models import Visibility
from apps.teams.access import TeamAccess
from apps.threads.actions import create_reply, create_thread, delete_reply
from apps.threads.kinds import ThreadKind
from config.demo.example import Example
from config.demo.objects import File

README = "# hello\n\nSays hello.\n"
HELLO = 'def greeting():\n    return "Hello!"\n'
TEST = 'from hello import greeting\n\n\ndef test_greeting():\n    assert greeting() == "Hello!"\n'
NAMES = 'def greeting(name):\n    return f"Hello, {name}!"\n'
NAMES_TEST = TEST.replace("greeting()", 'greeting("Ada")').replace("Hello!", "Hello, Ada!")
LICENCE = "Do with it what you like.\n"


class Hello(Example):
    """The repository, made in steps; each needs the one before it."""

    def __init__(self, space: TeamAccess, users: Mapping[str, User]) -> None:
        repo = create_repo(
            by=space,
            name="Hello",
            slug="hello",
            description="Says hello, and shows what Guildhall does.",
            visibility=Visibility.INTERNAL,
        )
        super().__init__(repo, users, days=3)

    def make(self) -> None:
        """Make the history, the pulls and the thread."""
        files = {"README.md": README, "hello.py": HELLO}
        first = self.change(self.alice, "main", "Say hello", files)
        licence = files | {"LICENSE": LICENCE}
        self.change(self.bob, "licence", "Add a licence", licence, first)
        files["test_hello.py"] = TEST
        second = self.change(self.bob, "main", "Test the greeting", files, first)
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
        head = self.change(self.bob, "names", title, files, parent)
        pull = self.open_pull(self.bob, title, "`greeting()` takes the name now.", "names")
        create_review(by=self.alice, pull=pull, status=refused, body="The test does not pass.")
        create_review(by=self.carol, pull=pull, status=ReviewStatus.COMMENTED, body="Lovely.")
        reply = partial(create_reply, thread=pull.thread)
        asked = reply(by=self.alice, kind="question", body="Did you run the tests?")
        files["test_hello.py"] = NAMES_TEST
        self.change(self.bob, "names", "Follow in the test", files, head)
        reply(by=self.bob, kind="answer", body="They pass now.", parent_reply_number=asked.number)

    def conflict(self, files: Mapping[str, str], parent: str) -> None:
        """A draft pull that conflicts with the one under review."""
        files = {**files, "hello.py": HELLO.replace("Hello!", "HELLO!")}
        self.change(self.alice, "shout", "Shout", files, parent)
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

    def change(
        self, by: RepoAccess, branch: str, message: str, files: Mapping[str, str], *parents: str
    ) -> str:
        """Push a commit of exactly these files, and return its name."""
        content = {name: File.text(text) for name, text in files.items()}
        sha = self.commit(by.user, message, content, *parents)
        self.push_branches(by, {branch: sha})
        return sha
