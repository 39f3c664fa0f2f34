"""Pushes of hundreds of refs are settled in batches, also with other changes in between."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.events.models import Event
from apps.git import run
from apps.git.protocol import MAX_COMMAND_LIST, Command, PushRequest, pkt
from apps.git.repo import GitRepo
from apps.pulls.models import Pull
from apps.repos import jobs
from apps.repos.http.push import MOST_REFS, receive, refusals
from apps.repos.models import BRANCHES, TAGS, PushJournal
from apps.repos.models.ref import REF_MAX
from apps.repos.pushes import BATCH, open_journal, settle
from apps.repos.rules import ZERO
from tests import prepared_data
from tests.dying import Killed
from tests.git.scratch import push_body
from tests.gitclient import Clone
from tests.prepared_data import given, with_people
from tests.principals import access_of
from tests.pulls import push_hook
from tests.repos.conftest import push_to
from tests.tips import check_tips

MANY = 2 * BATCH + 1
"""The refs of three batches."""
MAIN = f"{BRANCHES}main"


def with_clone(make, folder):
    things = with_people(make, folder)
    alice = things["alice"]
    made = Clone(folder / "work", make.repo(things["acme"], "api", by=alice), alice)
    made.commit("main", {"a": "1\n"})
    made.push("main")
    return things | {"clone": made}


@pytest.fixture
def builds():
    return {"clone": with_clone}


things, clone = prepared_data.things, given("clone")
alice, bob = map(given, ("alice", "bob"))


def die():
    raise Killed


@pytest.fixture
def at_batches(settings):
    """`at_batches(one, two)`: functions to call before the locks of the next batches, one for each;
    None for nothing.
    """
    settings.AFTER_PUSH = ["apps.pulls.pushes", "tests.pulls.push_hook"]
    yield lambda *acts: push_hook.preparing.extend(act or (lambda: None) for act in reversed(acts))
    left = list(push_hook.preparing)
    push_hook.preparing.clear()
    assert not left, "a batch was not reached"


def tags(clone, count=MANY):
    """Steps that create tags."""
    sha = clone.head("main")
    return [(f"{TAGS}v{number:05}", ZERO, sha) for number in range(count)]


def move(clone, steps, by):
    """Run a push up to the moves of its refs; return its id."""
    push = open_journal(actor=by, repo=clone.repo, moves=steps)
    lines = (f"update {name} {new} {old}\n" for name, old, new in steps)
    clone.server("update-ref", "--stdin", stdin="".join(lines))
    return push


def check_settled(repo):
    assert not PushJournal.objects.exists()
    assert dict(repo.refs.values_list("full_name", "sha")) == repo.git.refs()
    check_tips(repo)


def test_many_refs_are_settled_in_batches_of_few_statements(clone, bob, events):
    push = move(clone, tags(clone), bob)
    with events(*["tag-created"] * MANY) as recorded, CaptureQueriesContext(connection) as queries:
        settle(repo=clone.repo, push=push)
    assert [event.target["name"] for event in recorded] == [f"v{n:05}" for n in range(MANY)]
    assert {event.actor for event in recorded} == {bob}
    written = [query for query in queries if query["sql"].startswith('UPDATE "repos_repo"')]
    assert len(written) == 3
    assert len(queries) < MANY / 5
    check_settled(clone.repo)


def test_the_journal_explains_what_a_dead_process_has_not_settled(clone, bob, events, at_batches):
    """The process dies between the first batch and the second."""
    push = move(clone, tags(clone), bob)
    at_batches(None, die)
    with events(*["tag-created"] * BATCH), pytest.raises(Killed):
        settle(repo=clone.repo, push=push)
    assert clone.repo.refs.count() == 1 + BATCH
    assert PushJournal.objects.count() == MANY - BATCH
    with events(*["tag-created"] * (MANY - BATCH)) as recorded:
        jobs.settle_journals()
    assert {event.actor for event in recorded} == {bob}
    check_settled(clone.repo)


@pytest.mark.parametrize("left", [BATCH - 1, MANY])
def test_the_next_push_settles_what_a_dead_one_has_left_if_it_is_little(clone, alice, bob, left):
    """Nobody waits for another person's large push; the worker settles it."""
    move(clone, tags(clone, left), bob)
    clone.commit("main", {"a": "2\n"})
    clone.push("main", by=alice)
    assert clone.repo.branch_sha("main") == clone.head("main")
    assert clone.repo.refs.count() == (1 + left if left < BATCH else 1)
    jobs.settle_journals()
    assert clone.repo.refs.filter(pushed_by=bob).count() == left
    check_settled(clone.repo)


def test_a_push_between_two_batches_keeps_order_and_people(clone, alice, bob, at_batches):
    """Bob moves a ref that alice's push has not settled yet, and one that it has settled."""
    new = clone.commit("main", {"a": "2\n"})
    old = clone.repo.branch_sha("main")
    steps = [(f"{BRANCHES}b{number:05}", ZERO, old) for number in range(MANY)]
    push = move(clone, steps, alice)
    early, late = steps[0][0], steps[-1][0]

    def meanwhile():
        settle(repo=clone.repo, push=move(clone, [(early, old, new), (late, old, new)], bob))

    # Bob's own batch comes in between.
    at_batches(None, meanwhile, None, None)
    settle(repo=clone.repo, push=push)
    for name in (early, late):
        events_of_ref = Event.objects.filter(target__name=name.removeprefix(BRANCHES)).order_by(
            "id"
        )
        values = [(event.kind, event.actor, event.data["after"]) for event in events_of_ref]
        assert values == [("branch-created", alice, old), ("branch-pushed", bob, new)]
        assert clone.repo.refs.get(full_name=name).pushed_by == bob
    assert Event.objects.filter(kind="branch-created").count() == 1 + MANY
    check_settled(clone.repo)


def test_source_and_target_of_a_pull_are_settled_together(make, clone, alice, bob, events):
    """Otherwise the pull would be merged with its former head."""
    first = clone.commit("zz", {"b": "1\n"}, onto="main")
    clone.push("zz")
    pull = make.pull(clone.repo, by=alice, source="zz")
    head = clone.commit("zz", {"b": "2\n"})
    base = clone.repo.branch_sha("main")
    clone.commit("main", {"c": "1\n"}, onto="zz")
    steps = [(MAIN, base, clone.head("main"))]
    steps += [(f"{BRANCHES}a{number:05}", ZERO, base) for number in range(MANY)]
    steps += [(f"{BRANCHES}zz", first, head)]
    settle(repo=clone.repo, push=move(clone, steps, bob))
    after = Pull.objects.get(pk=pull.pk)
    assert (after.status, after.head_sha, after.merge_commit_sha) == (
        "merged",
        head,
        clone.head("main"),
    )
    assert Event.objects.filter(kind="pull-pushed", number=pull.number).count() == 1


def test_the_default_branch_of_an_import_is_the_one_that_is_there(make, things, alice, tmp_path):
    """Even if hundreds of refs precede it."""
    empty = make.repo(things["acme"], "imported", by=alice)
    work = Clone(tmp_path / "work", empty, alice)
    sha = work.commit("main", {"a": "1\n"})
    names = [*(f"a{number:05}" for number in range(MANY)), "main"]
    steps = [(BRANCHES + name, ZERO, sha) for name in names]
    settle(repo=empty, push=move(work, steps, alice))
    empty.refresh_from_db()
    assert (empty.default_branch, empty.is_empty) == ("main", False)
    assert empty.git.head_branch() == "main"


def test_git_is_not_asked_about_objects_that_never_came(clone, other, alice):
    sha = other.commit({"a": b"1"})
    absent = [Command("1" * 40, f"{n:040x}", f"{BRANCHES}b{n}") for n in range(1, 200)]
    body = push_body(other, [Command(ZERO, sha, f"{BRANCHES}new")])
    lines = [f"{c.old} {c.new} {c.ref}".encode() for c in absent]
    # Into the command list of a push with another object.
    body = body.replace(b"0000PACK", b"".join(map(pkt, lines)) + b"0000PACK", 1)
    before = run.spawned
    answer = receive(access=access_of(alice, clone.repo), body=iter([body]))
    assert f"ng {BRANCHES}b7".encode() in answer
    assert run.spawned - before <= 3
    assert set(clone.repo.git.refs()) <= {MAIN, f"{BRANCHES}new"}
    check_settled(clone.repo)


def test_git_is_asked_once_how_many_branches_have_moved(clone, bob, events):
    """The numbers equal those for each pair alone."""
    repo, count = clone.repo, 40
    base = clone.repo.branch_sha("main")
    tips = {}
    for number in range(count):
        name = f"b{number:03}"
        tips[name] = [clone.commit(name, {"b": str(number)}, onto="main")]
        steps = range(number % 3)
        tips[name] += [clone.commit(name, {"b": f"{number} {step}"}) for step in steps]
    tips["island"] = [clone.commit("island", {"i": "1"})]
    first = [(BRANCHES + name, ZERO, made[0]) for name, made in tips.items()]
    settle(repo=repo, push=move(clone, first, bob))
    # To its own tip, to another's tip (forced), or back (forced).
    names = sorted(tips)
    expected = {
        name: [tips[name][-1], tips[names[at - 1]][-1], base][at % 3]
        for at, name in enumerate(names)
    }
    pairs = [(tips[name][0], new) for name, new in expected.items()]
    second = [
        (BRANCHES + name, old, new)
        for name, (old, new) in zip(expected, pairs, strict=True)
        if old != new
    ]
    push = move(clone, second, bob)
    before = run.spawned
    with events(*["branch-pushed"] * len(second)) as recorded:
        settle(repo=repo, push=push)
    assert run.spawned - before <= 3  # the third reads the tips
    for event, (_, old, new) in zip(recorded, second, strict=True):
        alone = GitRepo.distance(repo.git, old, new)
        values = (event.data["forced"], event.data["commit_count"])
        assert values == (alone.lost > 0, alone.gained)


@pytest.mark.parametrize(
    "ref", [f"{BRANCHES}x\x85", f"{TAGS}v1\u202e0.2", f"{BRANCHES}a\u2066", f"{TAGS}v1\u200b"]
)
def test_a_name_that_looks_like_another_is_not_pushed_and_can_be_deleted(clone, other, alice, ref):
    """Such a name from before this rule can be deleted."""
    controls = "control characters, invisible characters or marks that turn the direction of text"
    words = f"ng {ref} names may not contain {controls}"
    sha = other.commit({"a": b"1"})

    def push(old, new):
        return push_to(clone.repo, alice, other, Command(old, new, ref))

    assert words in push(ZERO, sha)
    old = clone.head("main")
    settle(repo=clone.repo, push=move(clone, [(ref, ZERO, old)], alice))
    assert words in push(old, sha)
    assert f"ok {ref}" in push(old, ZERO)
    check_settled(clone.repo)


def commands(count):
    return tuple(Command(ZERO, "1" * 40, f"{TAGS}v{number}") for number in range(count))


def test_what_is_over_twenty_thousand_refs_is_refused_in_words():
    over = PushRequest(commands(MOST_REFS + 2), frozenset(), (), b"")
    words = "one push may move at most 20,000 refs: push this one again"
    late = [command.ref for command in over.commands[MOST_REFS:]]
    assert refusals(over, [], {}) == dict.fromkeys(late, words)
    # Refs that are refused for other reasons do not count.
    stale = {over.commands[0].ref: "x", over.commands[1].ref: "x"}
    assert refusals(over, [], stale) == stale
    whole = PushRequest(over.commands, frozenset({"atomic"}), (), b"")
    assert len(refusals(whole, [], {})) == MOST_REFS + 2


def test_what_is_over_twenty_thousand_refs_is_compared_with_no_protection():
    """Otherwise a list of 80,000 would keep the server busy."""
    moved = tuple(Command("1" * 40, "2" * 40, f"{BRANCHES}b{n}") for n in range(MOST_REFS + 1))
    refused = refusals(PushRequest(moved, frozenset(), (), b""), ["a", "b*"], {})
    assert refused.pop(moved[-1].ref).startswith("one push may move at most 20,000 refs")
    assert refused == {command.ref: "protected branch" for command in moved[:-1]}


@pytest.mark.slow
@pytest.mark.once
def test_twenty_thousand_refs_move_in_one_push_and_the_rest_in_another(clone, other, alice):
    sha = other.commit({"a": b"1"})
    creations = [Command(ZERO, sha, f"{TAGS}v{number:05}") for number in range(MOST_REFS + 1)]

    def push(*some):
        body = push_body(other, some, "report-status")
        return receive(access=access_of(alice, clone.repo), body=iter([body]))

    report = push(*creations)
    assert (report.count(b"ok refs/tags/"), report.count(b"ng refs/tags/")) == (MOST_REFS, 1)
    check_settled(clone.repo)
    assert push(creations[-1]).count(b"ok refs/tags/") == 1
    assert clone.repo.refs.count() == 1 + len(creations)
    assert Event.objects.filter(kind="tag-created").count() == len(creations)


def test_twenty_thousand_refs_of_any_name_fit_into_a_push():
    line = pkt(f"{ZERO} {ZERO} {'x' * REF_MAX}".encode())
    assert MOST_REFS * len(line) < MAX_COMMAND_LIST
