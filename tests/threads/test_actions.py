"""The actions of threads and replies check permissions themselves, for every caller."""

from __future__ import annotations

import pytest

from apps.core.errors import ApiError
from apps.threads import actions
from tests.principals import access_of

pytestmark = pytest.mark.once

ACTIONS = {
    "create_thread": lambda by, reply: actions.create_thread(
        by=by, title="x", body="", kind="issue"
    ),
    "update_thread": lambda by, reply: actions.update_thread(by=by, thread=reply.thread, title="x"),
    "delete_thread": lambda by, reply: actions.delete_thread(by=by, thread=reply.thread),
    "create_reply": lambda by, reply: actions.create_reply(
        by=by, thread=reply.thread, kind="comment", body="x"
    ),
    "update_reply": lambda by, reply: actions.update_reply(by=by, reply=reply, body="x"),
    "delete_reply": lambda by, reply: actions.delete_reply(by=by, reply=reply),
    "moderate_reply": lambda by, reply: actions.moderate_reply(by=by, reply=reply),
}


@pytest.fixture
def reply(make, team_repo, bob):
    """A reply by bob, in his own thread."""
    return make.reply(make.thread(team_repo, by=bob), by=bob)


def refusal(call):
    """The status and the code of the error that the call raises."""
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.status, refused.value.code


@pytest.mark.parametrize("name", ACTIONS)
def test_a_repository_that_takes_no_changes_takes_none_of_staff(name, reply, sam, events):
    repo = reply.thread.repo
    with events():
        repo.is_archived = True
        assert refusal(lambda: ACTIONS[name](access_of(sam, repo), reply)) == (409, "repo_archived")
        repo.owner_team.is_active = False
        assert refusal(lambda: ACTIONS[name](access_of(sam, repo), reply)) == (403, "team_inactive")


@pytest.mark.parametrize("name", [name for name in ACTIONS if name != "create_thread"])
def test_access_to_another_repository_is_of_no_use(name, make, reply, sam, events):
    by = access_of(sam, make.repo(sam, by=sam))
    with events(), pytest.raises(ValueError, match="is not in"):
        ACTIONS[name](by, reply)
