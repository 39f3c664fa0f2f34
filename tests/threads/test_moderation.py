"""Only staff blank replies of others, and only by the action: the API has no such operation."""

import pytest

from apps.core.errors import ApiError
from apps.threads import actions
from tests.principals import access_of
from tests.races import Outcome, at_once


@pytest.fixture
def reply(make, team_repo, bob, alice):
    """A reply by bob, to which alice has replied."""
    reply = make.reply(make.thread(team_repo, by=alice), by=bob, body="Rude words.")
    make.reply(reply.thread, by=alice, to=reply)
    return reply


def test_only_staff_moderates_and_the_placeholder_stays(reply, alice, carol, sam, api, events):
    path = f"/teams/acme/repos/api/threads/{reply.thread.number}"
    with events():
        for person in (None, carol, alice):
            with pytest.raises(ApiError) as caught:
                actions.moderate_reply(access=access_of(person, reply.thread.repo), reply=reply)
            assert caught.value.code == "staff_required"
        api(sam).delete(f"{path}/replies/{reply.number}").fails(403, "not_creator")
    with events("reply-deleted") as recorded:
        actions.moderate_reply(access=access_of(sam, reply.thread.repo), reply=reply)
    assert (recorded[0].data, recorded[0].actor) == ({"moderated": True}, sam)
    placeholder, answer = api(alice).get(path).gives()["replies"]
    assert (placeholder["is_deleted"], placeholder["body"]) == (True, "")
    assert answer["parent_reply_number"] == reply.number


def test_a_reply_that_is_gone_is_not_moderated_again(reply, bob, sam, events):
    actions.delete_reply(access=access_of(bob, reply.thread.repo), reply=reply)
    with events(), pytest.raises(ApiError) as caught:
        actions.moderate_reply(access=access_of(sam, reply.thread.repo), reply=reply)
    assert caught.value.code == "reply_already_deleted"


def test_a_reply_of_another_or_an_archived_repository_is_not_moderated(make, reply, sam, events):
    elsewhere = access_of(sam, make.repo(sam, by=sam))
    with events(), pytest.raises(ValueError, match="is not in"):
        actions.moderate_reply(access=elsewhere, reply=reply)
    reply.thread.repo.is_archived = True
    with events(), pytest.raises(ApiError, match="archived"):
        actions.moderate_reply(access=access_of(sam, reply.thread.repo), reply=reply)


@pytest.mark.django_db(transaction=True)
def test_of_staff_and_creator_at_once_one_deletes(reply, bob, sam):
    same = type(reply).objects.select_related("thread__repo").get(pk=reply.pk)
    gone = at_once(
        lambda: Outcome(
            lambda: actions.moderate_reply(access=access_of(sam, reply.thread.repo), reply=reply)
        ),
        lambda: Outcome(
            lambda: actions.delete_reply(access=access_of(bob, same.thread.repo), reply=same)
        ),
    )
    assert gone == {(200, None): 1, (409, "reply_already_deleted"): 1}
