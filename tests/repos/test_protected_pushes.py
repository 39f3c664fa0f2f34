"""A protected branch can be created but not pushed to, and git prints why beside the ref."""

from __future__ import annotations

import os
from functools import partial

import pytest
from django.db import connection

from apps.core.errors import Conflict
from apps.events.models import Event
from apps.git.protocol import FLUSH, ZERO, Command, pkt
from apps.repos.actions import create_protection
from apps.repos.http.push import receive
from apps.repos.models import PushJournal
from tests.git.scratch import push_body
from tests.principals import access_of
from tests.races import together
from tests.repos.conftest import push_to
from tests.repos.test_git_http import api_path, events_of, post
from tests.repos.test_slow_pushes import in_two, with_connection_of_its_own

pytestmark = pytest.mark.one_server

MAIN = "refs/heads/main"


def protect(server, path, branch="main"):
    server.api("alice").post(f"{api_path(path)}/protections", branch=branch).gives(201)


def test_a_protected_branch_is_created_and_then_pushed_to_by_nobody(server, path, git):
    protect(server, path)
    ours, sams = git(), git("sam")
    first = ours.commit()
    ours("push", "--quiet", ours.url, "main")
    ours.commit()
    assert "main -> main (protected branch)" in ours.fails("push", ours.url, "main")
    assert "(protected branch)" in ours.fails("push", "--force", ours.url, "HEAD~0:main")
    assert "[remote rejected] main (protected branch)" in ours.fails("push", ours.url, ":main")
    sams.commit()
    assert "(protected branch)" in sams.fails("push", "--force", sams.url, "main")
    assert ours("ls-remote", ours.url, MAIN).split()[0] == first
    assert events_of(server, path)[-1] == ("branch-created", "main")


@pytest.mark.slow
@pytest.mark.once
def test_the_reason_is_printed_also_where_much_is_pushed(server, path, ours):
    """git reads the answer only after it has sent everything, more than the server reads before."""
    protect(server, path)
    (ours.folder / "noise").write_bytes(os.urandom(40_000_000))
    ours.commit()
    assert "main -> main (protected branch)" in ours.fails("push", ours.url, "main")


def test_the_reason_stands_beside_each_refused_ref_and_the_others_move(server, path, ours):
    protect(server, path, "release/*")
    ours("push", "--quiet", ours.url, "main:release/1", "main:release/2")
    tip = ours.commit()
    refs = ("main", "main:release/1", "main:topic", ":release/2", "main:refs/notes/x")
    output = ours.fails("push", ours.url, *refs)
    assert "main -> release/1 (protected branch)" in output
    assert "[remote rejected] release/2 (protected branch)" in output
    assert "refs/notes/x (only branches and tags can be pushed)" in output
    assert "main -> main\n" in output
    assert "[new branch]" in output
    assert "hook declined" not in output
    assert events_of(server, path)[-2:] == [("branch-pushed", "main"), ("branch-created", "topic")]
    assert ours("ls-remote", ours.url, MAIN).split()[0] == tip


def test_an_atomic_push_with_a_protected_branch_moves_nothing(server, path, ours):
    protect(server, path)
    ours.commit()
    output = ours.fails("push", "--atomic", ours.url, "main", "main:topic")
    assert "main -> main (protected branch)" in output
    assert "main -> topic (atomic push failed)" in output
    assert len(events_of(server, path)) == len(["repo", "protection", "branch"])


def test_a_push_that_only_deletes_the_rest_is_carried_out(server, path, ours):
    protect(server, path)
    ours("push", "--quiet", ours.url, "main:topic")
    ours.commit()
    output = ours.fails("push", ours.url, "main", ":topic")
    assert "main -> main (protected branch)" in output
    assert "[deleted]" in output
    assert events_of(server, path)[-1] == ("branch-deleted", "topic")


def test_names_that_only_look_alike_are_open(server, path, git):
    protect(server, path, "release/*")
    ours = git()
    ours.commit()
    names = ("Release/1", "release/1/x", "releases")
    for _ in range(2):
        ours.commit()
        ours("push", "--quiet", ours.url, *(f"HEAD:refs/heads/{name}" for name in names))
    ours("push", "--quiet", ours.url, "HEAD:refs/tags/release/1/y")
    ours("push", "--quiet", ours.url, ":refs/tags/release/1/y")
    output = ours.fails("push", ours.url, "HEAD:refs/tags/release/1")
    assert "(a protected branch has this name, or may have it)" in output


def test_a_command_that_moves_nothing_is_refused(server, path, ours):
    """With two zeros git would delete the ref whatever its value."""
    protect(server, path)
    tip = ours("rev-parse", "HEAD")
    ours("push", "--quiet", ours.url, "main:topic")
    before = events_of(server, path)
    for ref in (MAIN, "refs/heads/topic", "refs/heads/absent"):
        for sha in (ZERO, tip):
            body = pkt(f"{sha} {sha} {ref}\0report-status".encode()) + FLUSH
            assert post(server, path, "receive-pack", body) == 200
    assert len(ours("ls-remote", ours.url, "refs/heads/*").splitlines()) == 2
    assert events_of(server, path) == before


def test_a_branch_is_not_deleted_and_made_anew_by_one_push(server, path, ours):
    protect(server, path)
    first = ours("rev-parse", "HEAD")
    new = ours.commit()
    lines = (f"{first} {ZERO} {MAIN}\0report-status", f"{ZERO} {new} {MAIN}")
    body = b"".join(pkt(line.encode()) for line in lines) + FLUSH
    assert post(server, path, "receive-pack", body) == 400
    assert ours("ls-remote", ours.url, MAIN).split()[0] == first


# Protections that come and go while somebody pushes


def body_of(other, old, new):
    return push_body(other, [Command(old, new, MAIN)])


def push_main(repo, by, other, old, new):
    return push_to(repo, by, other, Command(old, new, MAIN))


def check_settled(repo):
    assert not PushJournal.objects.exists()
    assert dict(repo.refs.values_list("full_name", "sha")) == repo.git.refs()


@pytest.mark.django_db(transaction=True)
def test_a_push_that_was_accepted_before_the_protection_is_carried_out(
    team_repo, other, alice, bob
):
    first = other.commit({"a": b"1"})
    push_main(team_repo, bob, other, ZERO, first)
    second, third = (other.commit({"a": b"%d" % n}, first) for n in (2, 3))
    whole = body_of(other, first, second)

    protect_main = partial(create_protection, access=access_of(alice, team_repo), branch="main")
    slowly = with_connection_of_its_own(in_two(whole, -10, protect_main))
    assert b"ok refs/heads/main" in receive(access=access_of(bob, team_repo), body=slowly)
    late = push_main(team_repo, bob, other, second, third)
    assert "ng refs/heads/main protected branch" in late
    assert team_repo.branch_sha("main") == second
    kinds = list(Event.objects.order_by("-id").values_list("kind", "actor__username")[:2])
    assert kinds == [("branch-pushed", "bob"), ("protection-created", "alice")]
    check_settled(team_repo)


@pytest.mark.django_db(transaction=True)
def test_refs_are_compared_with_protections_before_the_lock(team_repo, other, alice, bob):
    """A long list takes time, and on SQLite a lock blocks all writers. Protections that are created
    meanwhile hold.
    """
    first, second = (other.commit({"a": b"%d" % n}) for n in (1, 2))
    push_main(team_repo, bob, other, ZERO, first)
    locked: list[bool] = []

    def protect_after_the_first_look(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if sql.startswith("SELECT") and "repos_protection" in sql and "COUNT" not in sql:
            locked.append(connection.in_atomic_block)
            if len(locked) == 1:
                create_protection(access=access_of(alice, team_repo), branch="main")
        return result

    with connection.execute_wrapper(protect_after_the_first_look):
        report = push_main(team_repo, bob, other, first, second)
    assert "ng refs/heads/main protected branch" in report
    assert locked == [False, True, False, True]
    assert team_repo.branch_sha("main") == first


@pytest.mark.django_db(transaction=True)
def test_a_repository_that_is_archived_meanwhile_takes_no_push(team_repo, other, alice):
    first = other.commit({"a": b"1"})
    type(team_repo).objects.update(is_archived=True)
    with pytest.raises(Conflict, match="archived"):
        push_main(team_repo, alice, other, ZERO, first)
    assert team_repo.git.refs() == {}


@pytest.mark.django_db(transaction=True)
def test_of_two_pushes_that_create_a_protected_branch_one_wins(make, team_repo, other, alice, bob):
    make.protection(team_repo, by=alice)
    bodies = [body_of(other, ZERO, other.commit({"a": b"%d" % n})) for n in range(2)]
    by = [access_of(person, team_repo) for person in (alice, bob)]
    answers = together(
        lambda: receive(access=by[0], body=iter([bodies[0]])),
        lambda: receive(access=by[1], body=iter([bodies[1]])),
    )
    assert sorted(b"ok refs/heads/main" in answer for answer in answers) == [False, True]
    assert Event.objects.filter(kind="branch-created").count() == 1
    check_settled(team_repo)


@pytest.mark.django_db(transaction=True)
def test_a_push_and_a_protection_at_once_have_one_of_two_outcomes(team_repo, other, alice, bob):
    tip = other.commit({"a": b"0"})
    push_main(team_repo, bob, other, ZERO, tip)
    for number in range(6):
        new = other.commit({"a": b"%d" % (number + 1)}, tip)
        body = body_of(other, tip, new)
        _, answer = together(
            partial(create_protection, access=access_of(alice, team_repo), branch="main"),
            partial(receive, access=access_of(bob, team_repo), body=iter([body])),
        )
        moved = b"ok refs/heads/main" in answer
        assert moved or b"ng refs/heads/main protected branch" in answer
        tip = new if moved else tip
        assert team_repo.branch_sha("main") == tip
        check_settled(team_repo)
        team_repo.protections.all().delete()
