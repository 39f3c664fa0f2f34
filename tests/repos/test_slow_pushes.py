"""Pushes in progress while others move the same ref or remove the pusher's access."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.actions import deactivate_user
from apps.accounts.authentication import principal_of
from apps.accounts.models import ApiToken, User
from apps.core.access import Level
from apps.core.errors import ApiError, BadRequest, Unauthenticated
from apps.events.models import Event
from apps.git.protocol import ZERO, Command
from apps.repos.access import open_repo
from apps.repos.http import streams
from apps.repos.http.push import receive
from apps.repos.models import PushJournal, Repo
from apps.repos.pushes import open_journal, reconcile, settle
from apps.repos.rules import RefMove
from apps.teams.models import Member, Role, Team
from tests.git.scratch import push_body
from tests.principals import access_of
from tests.principals import principal_of as principal_for
from tests.repos.conftest import push_to
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
MAIN, TOPIC = "refs/heads/main", "refs/heads/topic"


@pytest.fixture
def push(team_repo, other):
    """`push(bob, old, new)`: a complete push of main."""

    def whole(person, old, new):
        assert f"ok {MAIN}" in push_to(team_repo, person, other, Command(old, new, MAIN))

    return whole


def commits(source, count):
    """Different commits without parents."""
    return [source.commit({"a": b"%d" % number}) for number in range(count)]


def in_two(body, at, meanwhile):
    """The body in two pieces, with a call between them."""
    yield body[:at]
    meanwhile()
    yield body[at:]


def leave():
    raise BadRequest("malformed_request", "gone")


def with_connection_of_its_own(body):
    """A body that closes the database connection of the thread in which it is read."""
    try:
        yield from body
    finally:
        connection.close()


def test_what_git_has_done_is_written_down_though_the_body_has_no_end(team_repo, other, bob):
    """Otherwise the client could keep rows and git different for any time."""
    new = other.commit({"a": b"1"})

    def hanging():
        yield push_body(other, [Command(ZERO, new, MAIN)])
        eventually(lambda: Event.objects.filter(actor=bob, kind="branch-created").exists())
        assert not PushJournal.objects.exists()
        assert team_repo.refs.get().pushed_by == bob
        yield b"more"

    body = with_connection_of_its_own(hanging())
    assert b"ok refs/heads/main" in receive(access=access_of(bob, team_repo), body=body)


def test_a_body_that_never_ends_is_read_for_no_longer_than_a_minute(
    team_repo, other, bob, monkeypatch
):
    """Also with a byte now and then, after git has ended and after a refusal."""
    monkeypatch.setattr(streams, "DROP_SECONDS", 0.1)
    new = other.commit({"a": b"1"})
    for ref in (MAIN, "refs/pull/1/head"):
        taken = count()

        def body(ref=ref, taken=taken):
            yield push_body(other, [Command(ZERO, new, ref)])
            yield from (b"x" for _ in taken)

        assert ref.encode() in receive(access=access_of(bob, team_repo), body=body())
        assert next(taken) < streams.DROPPED


def test_a_client_that_leaves_while_it_sends_moves_nothing(team_repo, other, bob):
    body = push_body(other, [Command(ZERO, other.commit({"a": b"1"}), MAIN)])
    with pytest.raises(BadRequest, match="gone"):
        receive(access=access_of(bob, team_repo), body=in_two(body, -10, leave))
    assert team_repo.git.refs() == {}
    assert not PushJournal.objects.exists()


@pytest.mark.parametrize("begins", ["at a commit", "without the branch"])
def test_a_ref_that_moves_away_and_back_meanwhile_is_moved_by_whom_it_is(
    team_repo, other, alice, bob, begins
):
    """Otherwise the move would not be recorded, and its pusher could approve it."""
    here, away, new = commits(other, 3)

    def push(person, old, new, meanwhile=lambda: None, ref=TOPIC):
        body = push_body(other, [Command(old, new, ref)])
        whole = with_connection_of_its_own(in_two(body, -10, meanwhile))
        assert f"ok {ref}".encode() in receive(access=access_of(person, team_repo), body=whole)

    push(alice, ZERO, here, ref=MAIN)  # the first branch cannot be deleted
    start = ZERO
    if begins == "at a commit":
        start = here
        push(alice, ZERO, here)

    def away_and_back():
        push(alice, start, away)
        push(alice, away, start)

    push(bob, start, new, away_and_back)
    stored = team_repo.refs.get(full_name=TOPIC)
    assert (stored.sha, stored.pushed_by) == (new, bob)
    last = Event.objects.latest("id")
    assert (last.actor, last.data["after"]) == (bob, new)


def test_a_push_onto_one_that_is_not_written_down_yet_is_its_pushers(
    team_repo, other, push, alice, bob
):
    """The step was overtaken, but without it nothing leads to the last one."""
    here, away, new, newer = commits(other, 4)
    push(alice, ZERO, here)
    slow = journal_of_a_push(team_repo, bob, here, new)
    push(alice, here, away)
    push(alice, away, here)
    team_repo.git.fetch_objects(other, new)
    assert team_repo.git.update_ref(MAIN, new, here)
    push(bob, new, newer)
    settle(repo=team_repo, push=slow, own=[RefMove(team_repo, MAIN, here, new, bob)])
    stored = team_repo.refs.get()
    assert (stored.sha, stored.pushed_by) == (newer, bob)
    *_, before, last = Event.objects.filter(kind="branch-pushed").order_by("id")
    assert (before.actor, before.data["before"], before.data["after"]) == (bob, here, new)
    assert (last.actor, last.data["before"], last.data["after"]) == (bob, new, newer)


def test_a_step_that_is_still_to_come_keeps_its_person(team_repo, other, push, alice, bob):
    """The ref moves away and back before git makes the step, and another push settles it."""
    here, away, new = commits(other, 3)
    push(alice, ZERO, here)
    slow = journal_of_a_push(team_repo, bob, here, new)
    push(alice, here, away)
    push(alice, away, here)
    team_repo.git.fetch_objects(other, new)
    assert team_repo.git.update_ref(MAIN, new, here)
    assert reconcile(repo=team_repo) == 1
    assert team_repo.refs.get().pushed_by == bob
    settle(repo=team_repo, push=slow)
    last = Event.objects.latest("id")
    assert (last.actor, last.data["before"], last.data["after"]) == (bob, here, new)
    assert not PushJournal.objects.exists()


def test_steps_that_are_still_to_come_are_no_way_there_and_back(team_repo, other, push, alice, bob):
    """Each begins at the ref's value, but git has made neither."""
    here, away, there = commits(other, 3)
    push(alice, ZERO, here)
    open_journal(actor=bob, repo=team_repo, moves=[(MAIN, here, there)])
    push(alice, here, away)
    push(alice, away, there)
    open_journal(actor=bob, repo=team_repo, moves=[(MAIN, there, here)])
    push(alice, there, away)
    push(alice, away, here)
    assert reconcile(repo=team_repo) == 0
    moves = Event.objects.filter(kind__startswith="branch-").order_by("id")
    assert [move.data["after"] for move in moves] == [here, away, there, away, here]
    assert {move.actor for move in moves} == {alice}


def test_refused_steps_there_and_back_are_no_moves(team_repo, other, push, alice, bob):
    """Two people push the same there and back again. git refuses the later ones, and the pushes
    are settled before these end.
    """
    here, away = commits(other, 2)
    push(alice, ZERO, here)
    team_repo.git.fetch_objects(other, away)
    there, refused = (journal_of_a_push(team_repo, who, here, away) for who in (alice, bob))
    assert team_repo.git.update_ref(MAIN, away, here)
    back, refused_too = (journal_of_a_push(team_repo, who, away, here) for who in (alice, bob))
    assert team_repo.git.update_ref(MAIN, here, away)
    for old, new, id in ((away, here, back), (here, away, there)):
        assert settled(team_repo, id, alice, old, new) == set()
    for old, new, id in ((away, here, refused_too), (here, away, refused)):
        assert settled(team_repo, id, bob, old, new, is_moved=False) == set()
    moves = Event.objects.filter(kind="branch-pushed").order_by("id")
    assert [(move.actor, move.data["after"]) for move in moves] == [(alice, away), (alice, here)]
    assert not PushJournal.objects.exists()


def test_a_move_that_git_has_reported_is_its_pushers(team_repo, other, push, alice, bob):
    """Also if an equal step of somebody else was in the journal before, and if the ref is back."""
    here, away = commits(other, 2)
    push(alice, ZERO, here)
    team_repo.git.fetch_objects(other, away)
    journal_of_a_push(team_repo, alice, here, away)
    there = journal_of_a_push(team_repo, bob, here, away)
    assert team_repo.git.update_ref(MAIN, away, here)
    journal_of_a_push(team_repo, alice, away, here)
    assert team_repo.git.update_ref(MAIN, here, away)
    assert settled(team_repo, there, bob, here, away) == set()
    moves = Event.objects.filter(kind="branch-pushed").order_by("id")
    assert [(move.actor, move.data["after"]) for move in moves] == [(bob, away), (alice, here)]


def test_a_move_that_cannot_be_recorded_in_order_is_not_acknowledged(
    team_repo, other, push, alice, bob
):
    """Its push was reported after a later one was settled."""
    here, away, new = commits(other, 3)
    push(alice, ZERO, here)
    late = journal_of_a_push(team_repo, bob, here, away)
    push(alice, here, new)
    assert settled(team_repo, late, bob, here, away) == {MAIN}
    assert not Event.objects.filter(actor=bob).exists()


def journal_of_a_push(repo, by, old, new):
    return open_journal(actor=by, repo=repo, moves=[(MAIN, old, new)])


def settled(repo, push, by, old, new, *, is_moved=True):
    """Settle a push of main that git has reported; return the doubted refs."""
    own, reported = [RefMove(repo, MAIN, old, new, by)], {MAIN: is_moved}
    return settle(repo=repo, push=push, own=own, reported=reported)


LOSSES = {
    "the token is revoked": (
        lambda: ApiToken.objects.update(revoked_at=timezone.now()),
        (401, "not_authenticated"),
    ),
    "the token ends": (
        lambda: ApiToken.objects.update(expires_at=timezone.now()),
        (401, "not_authenticated"),
    ),
    "the account is deactivated": (
        lambda: User.objects.filter(username="bob").update(is_active=False),
        (401, "not_authenticated"),
    ),
    "the member is removed": (
        lambda: Member.objects.filter(user__username="bob").delete(),
        (403, "forbidden"),
    ),
    "the member becomes a viewer": (
        lambda: Member.objects.filter(user__username="bob").update(role=Role.VIEWER),
        (403, "role_required"),
    ),
    "the team is deactivated": (
        lambda: Team.objects.update(is_active=False),
        (403, "team_inactive"),
    ),
    "the repository is archived": (
        lambda: Repo.objects.update(is_archived=True),
        (409, "repo_archived"),
    ),
}


def access_by_token(make, person):
    """The access of the person's token to teams/acme/api."""
    principal = principal_of(make.token(person))
    return open_repo(principal, "teams/acme", "api", needs=Level.WRITE, writing=True)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_push_is_refused_if_its_right_is_lost_before_it_is_accepted(
    make, team_repo, other, bob, loss
):
    body = push_body(other, [Command(ZERO, other.commit({"a": b"1"}), MAIN)])
    lose, answer = LOSSES[loss]
    with pytest.raises(ApiError) as caught:
        receive(access=access_by_token(make, bob), body=in_two(body, 10, lose))
    assert (caught.value.status, caught.value.code) == answer
    assert team_repo.git.refs() == {}
    assert not PushJournal.objects.exists()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_push_that_was_accepted_before_is_carried_out(make, team_repo, other, bob, loss):
    body = push_body(other, [Command(ZERO, other.commit({"a": b"1"}), MAIN)])
    whole = with_connection_of_its_own(in_two(body, -10, LOSSES[loss][0]))
    assert b"ok refs/heads/main" in receive(access=access_by_token(make, bob), body=whole)
    assert team_repo.refs.get().pushed_by == bob
    assert not PushJournal.objects.exists()


def quarantines(repo):
    """The quarantine folders of pushes in progress."""
    return list((repo.git.path / "objects").glob("tmp_objdir-incoming-*"))


def large_push(other):
    """A push of some hundred kilobytes that do not compress."""
    noise = Random(7).randbytes(300_000)  # noqa: S311 - noise, no secret
    return push_body(other, [Command(ZERO, other.commit({"a": noise}), MAIN)])


@pytest.mark.parametrize("sent", [-10, 200_000])
def test_a_client_that_leaves_while_it_sends_leaves_nothing_on_disk(team_repo, other, bob, sent):
    def disconnect():
        eventually(lambda: quarantines(team_repo))
        leave()

    with pytest.raises(BadRequest, match="gone"):
        receive(access=access_of(bob, team_repo), body=in_two(large_push(other), sent, disconnect))
    assert not quarantines(team_repo)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_git_that_is_killed_leaves_nothing_on_disk(team_repo, other, bob, ending):
    """By a system without free memory, or at the deadline of the push."""

    def kill():
        eventually(lambda: quarantines(team_repo))
        os.kill(receiver_of(team_repo), ending)

    body = in_two(large_push(other), 200_000, kill)
    receive(access=access_of(bob, team_repo), body=body)
    assert not quarantines(team_repo)
    assert team_repo.git.refs() == {}


def receiver_of(repo):
    """The process id of the receive-pack of this repository."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"receive-pack" in words and f"--git-dir={repo.git.path}".encode() in words:
                return int(folder.name)
    raise AssertionError("no push is under way")


def test_a_push_that_ends_leaves_the_objects_of_another_one_alone(team_repo, other, alice, bob):
    killed = abandoned_quarantine(team_repo, "killed")

    def remove_both():
        eventually(lambda: len(quarantines(team_repo)) == 2)
        assert team_repo.git.remove_quarantines() == 0

    body = in_two(large_push(other), 200_000, remove_both)
    assert b"ok refs/heads/main" in receive(access=access_of(bob, team_repo), body=body)
    assert quarantines(team_repo) == [killed]
    assert team_repo.git.remove_quarantines() == 1


def abandoned_quarantine(repo, name):
    """The quarantine folders of a killed git."""
    folder = repo.git.path / "objects" / f"tmp_objdir-incoming-{name}"
    (folder / "pack").mkdir(parents=True)
    (folder / "pack" / "tmp_pack_x").write_bytes(b"PACK")
    return folder


@pytest.mark.parametrize(
    "end",
    [
        lambda bob, sam: deactivate_user(principal=principal_for(sam), user=bob),
        lambda bob, sam: bob.tokens.update(revoked_at=timezone.now()),
    ],
    ids=["the account is closed", "the token is revoked"],
)
def test_a_push_under_way_moves_nothing_once_its_credential_has_ended(
    team_repo, other, make, bob, sam, end
):
    """git is killed while it waits for the rest of the pack; then the rest comes."""
    body = push_body(other, [Command(ZERO, other.commit({"a": b"1"}), MAIN)])
    principal = principal_of(make.token(bob))
    access = open_repo(principal, team_repo.owner.path, team_repo.slug, needs=Level.WRITE)

    def slow():
        yield body[:-10]
        end(bob, sam)
        eventually(lambda: not PushJournal.objects.exists())
        yield body[-10:]

    with pytest.raises(Unauthenticated):
        receive(access=access, body=with_connection_of_its_own(slow()))
    assert not team_repo.git.refs() and not team_repo.refs.exists()
