"""The main job, by the client that openapi-python-client generates: from a team to a merged pull.

Takes GUILDHALL, ALICE and BOB from the environment: an address and two tokens. Run where the
package `guildhall_client` has been generated; mypy checks both together.
"""

import os
import subprocess
from typing import TypeVar

from guildhall_client import AuthenticatedClient
from guildhall_client.api.events import list_events
from guildhall_client.api.pulls import (
    create_team_pull,
    create_team_pull_review,
    list_team_pulls,
    merge_team_pull,
)
from guildhall_client.api.repos import create_team_repo
from guildhall_client.api.teams import create_team, create_team_member
from guildhall_client.api.threads import create_team_thread_reply, list_team_thread_replies
from guildhall_client.models import (
    AddMemberRequest,
    BranchPushedEvent,
    CreatePullRequest,
    CreateReplyRequest,
    CreateRepoRequest,
    CreateReviewRequest,
    CreateTeamRequest,
    ErrorBody,
    MergePullRequest,
    PullMergedEvent,
    ReplyCreatedEvent,
    ReviewCreatedEvent,
    ReviewDecision,
    TeamRole,
)
from guildhall_client.types import Response

T = TypeVar("T")
SITE = os.environ["GUILDHALL"]


def client_of(token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=f"{SITE}/api/v1", token=token, timeout=None)


alice, bob = client_of(os.environ["ALICE"]), client_of(os.environ["BOB"])


def done(answer: ErrorBody | T | None) -> T:
    """The parsed response; fails for an error response."""
    assert answer is not None
    assert not isinstance(answer, ErrorBody), answer.detail
    return answer


def refused(answer: Response[ErrorBody | T], status: int, code: str) -> None:
    assert isinstance(answer.parsed, ErrorBody), answer
    assert (answer.status_code, answer.parsed.error) == (status, code)


def push(clone_url: str) -> None:
    """Push two branches: `world` is one commit ahead of `main`."""
    remote = clone_url.replace("://", f"://alice:{os.environ['ALICE']}@", 1)
    person = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"]
    for command in (
        ["init", "-q", "-b", "main"],
        [*person, "commit", "-q", "--allow-empty", "-m", "Say hello"],
        ["push", "-q", remote, "main"],
        [*person, "commit", "-q", "--allow-empty", "-m", "Greet the world"],
        ["push", "-q", remote, "HEAD:world"],
    ):
        subprocess.run(["git", *command], check=True)


done(create_team.sync(client=alice, body=CreateTeamRequest(name="Py", slug="py")))
refused(
    create_team.sync_detailed(client=bob, body=CreateTeamRequest(name="Py", slug="py")),
    409,
    "slug_taken",
)
member = AddMemberRequest(username="bob", role=TeamRole.MEMBER)
assert done(create_team_member.sync("py", client=alice, body=member)).role is TeamRole.MEMBER
made = CreateRepoRequest(name="Hello", slug="hello", description=None)
repo = done(create_team_repo.sync("py", client=alice, body=made))
push(repo.clone_url)

body = CreatePullRequest(title="World", body="", source_branch="world", target_branch="main")
pull = done(create_team_pull.sync("py", "hello", client=bob, body=body))
refused(
    create_team_pull.sync_detailed("py", "hello", client=bob, body=body), 409, "pull_already_exists"
)
question = CreateReplyRequest(kind="question", body="All of it?")
first_reply = done(create_team_thread_reply.sync("py", "hello", 1, client=alice, body=question))
answer = CreateReplyRequest(kind="answer", body="Yes.", parent_reply_number=first_reply.number)
done(create_team_thread_reply.sync("py", "hello", 1, client=bob, body=answer))
replies = done(list_team_thread_replies.sync("py", "hello", 1, client=bob))
assert [(reply.number, reply.depth) for reply in replies.results] == [(1, 0), (2, 1)]

review = CreateReviewRequest(status=ReviewDecision.APPROVED)
done(create_team_pull_review.sync("py", "hello", pull.number, client=alice, body=review))
refused(
    merge_team_pull.sync_detailed(
        "py", "hello", 1, client=alice, body=MergePullRequest(), expected_head_sha="0" * 40
    ),
    409,
    "head_changed",
)
merged = done(
    merge_team_pull.sync(
        "py",
        "hello",
        1,
        client=alice,
        body=MergePullRequest(),
        expected_head_sha=str(pull.head_sha),
    )
)
assert merged.pull.merged_by_username == "alice"
pulls = done(list_team_pulls.sync("py", "hello", client=bob))
assert [record.merge_commit_sha for record in pulls.results] == [merged.merge_commit_sha]

page = done(list_events.sync(client=alice, scope=["repo:teams/py/hello"]))
merge, pushed, reviewed, replied = page.results[:4]
assert isinstance(merge, PullMergedEvent) and merge.target.number == pull.number
assert merge.data.merge_commit_sha == merged.merge_commit_sha
assert isinstance(pushed, BranchPushedEvent) and pushed.data.after == merged.merge_commit_sha
assert isinstance(reviewed, ReviewCreatedEvent) and reviewed.target.number == pull.number
assert isinstance(replied, ReplyCreatedEvent) and replied.target.thread_number == pull.number
print("merged", merged.merge_commit_sha)
