"""…/comments/{number}/apply and …/apply-suggestions: commits of suggested changes."""

from __future__ import annotations

from itertools import count

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.events.models import Event
from apps.git.lines import Lines
from apps.idempotency.models import KeyedRequest
from apps.pulls.actions import comment_on_line
from apps.pulls.places import LinePlace
from apps.pulls.queries import get_pull
from apps.pulls.suggestions import Edit, edited, overlap, suggestion_in
from apps.repos.actions import create_protection
from apps.repos.models import PushJournal
from apps.repos.pushes import reconcile
from tests.dying import dying_at
from tests.principals import access_of
from tests.pulls import paths
from tests.races import at_once

PUSHED = ("branch-pushed", "pull-pushed", "reply-updated")
TEXT = "one\ntwo\nthree\nfour\n"


@pytest.fixture
def pull(make, clone, alice):
    """A pull of a file with four lines."""
    clone.push_commit("lines", {"song": TEXT}, onto="main", message="add a song")
    return make.pull(clone.repo, by=alice, source="lines", title="Add a song")


def block(*lines):
    return "\n".join(["Better so:", "```suggestion", *lines, "```"])


@pytest.fixture
def suggest(pull):
    """`suggest(bob, "TWO", line=2)` comments on line 2; returns the number."""

    def send(by, *lines, line, start=None, body=None, **place):
        again = get_pull(pull.repo, pull.number)
        where = {"commit_sha": again.head_sha, "path": b"song", "line": line, **place}
        reply = comment_on_line(
            access=access_of(by, pull.repo),
            pull=again,
            place=LinePlace(**where, start_line=start),
            body=block(*lines) if body is None else body,
            kind="suggestion",
        )
        return reply.number

    return send


def apply_url(pull, number=None):
    below = "apply-suggestions" if number is None else f"comments/{number}/apply"
    return f"{paths.pull(pull)}/{below}"


def song(clone, branch="lines", name="song"):
    return clone.server("show", f"{branch}:{name}")


def test_a_suggestion_becomes_a_commit_with_its_author(
    api, pull, clone, suggest, alice, bob, events
):
    number = suggest(bob, "TWO", "and a half", line=2)
    head = pull.head_sha
    api(alice).post(apply_url(pull, 99)).fails(404, "not_found")
    api(alice).post(apply_url(pull, number), expected_head_sha="1" * 40).fails(409, "head_changed")
    with events(*PUSHED) as recorded:
        answer = api(alice).post(apply_url(pull, number), expected_head_sha=head).gives(201)
    made = answer["commit_sha"]
    assert (answer["comments"], answer["pull"]["head_sha"]) == ([number], made)
    assert answer["pull"] == api(alice).get(paths.pull(pull)).gives()
    assert song(clone) == "one\nTWO\nand a half\nthree\nfour"
    commit_text = clone.server("log", "-1", "--format=%an|%ce|%P|%B", "lines").split("|")
    assert commit_text == [
        "alice",
        "alice@users.noreply.localhost",
        head,
        "Apply suggestion to song\n\nCo-authored-by: bob <bob@users.noreply.localhost>",
    ]
    assert [event.actor for event in recorded] == [alice] * 3
    reply = api(alice).get(f"{pull.repo.api_path}/threads/{pull.number}/replies/{number}").gives()
    assert reply["status"] == "resolved"
    assert not PushJournal.objects.exists()
    clone.server("fsck", "--strict")
    api(alice).post(apply_url(pull, number)).fails(409, "suggestion_outdated")


def test_several_suggestions_become_one_commit(api, pull, clone, suggest, alice, bob, sam, events):
    head = clone.push_commit("lines", {"tale": "a\r\nb\r\n"})
    numbers = [
        suggest(bob, line=4),
        suggest(sam, "ONE", line=1),
        suggest(bob, "B", "C", line=2, path=b"tale"),
        suggest(alice, "2", line=3, start=2),
    ]
    message = "Sing louder\n\nAll of it."
    with events("branch-pushed", "pull-pushed", *["reply-updated"] * 4):
        sent = {"comments": numbers, "message": message}
        api(alice).post(apply_url(pull), **sent).gives(201)
    assert song(clone) == "ONE\n2"
    assert clone.server("cat-file", "-s", "lines:tale") == str(len("a\r\nB\r\nC\r\n"))
    commit_text = clone.server("log", "-1", "--format=%B", "lines")
    people = [f"Co-authored-by: {name} <{name}@users.noreply.localhost>" for name in ("bob", "sam")]
    assert commit_text.split("\n\n")[:2] == message.split("\n\n")
    assert sorted(commit_text.split("\n\n")[2].split("\n")) == people
    assert clone.server("rev-list", "--count", f"{head}..lines") == "1"


def test_a_suggestion_follows_its_lines(api, pull, clone, suggest, alice, bob):
    number = suggest(bob, "THREE", line=3)
    clone.push_commit("lines", {"song": f"zero\n{TEXT}"})
    api(alice).post(apply_url(pull, number)).gives(201)
    assert song(clone) == "zero\none\ntwo\nTHREE\nfour"


def test_a_suggestion_whose_lines_have_changed_is_refused(
    api, pull, clone, suggest, alice, bob, events
):
    number = suggest(bob, "THREE", line=3)
    clone.push_commit("lines", {"song": TEXT.replace("three", "3")})
    with events():
        detail = api(alice).post(apply_url(pull, number)).fails(409, "suggestion_outdated")
    assert f"comment {number}" in detail and "changed" in detail


@pytest.mark.parametrize(
    "body", ["Why?", block("a") + "\n" + block("b"), "> ```suggestion\n> a\n> ```"]
)
def test_a_comment_without_exactly_one_suggestion_is_refused(
    api, pull, suggest, alice, bob, body, events
):
    number = suggest(bob, line=1, body=body)
    with events():
        api(alice).post(apply_url(pull, number)).fails(422, "not_a_suggestion")


def test_suggestions_that_overlap_or_change_nothing_are_refused(
    api, pull, suggest, alice, bob, events
):
    first, second = suggest(bob, "a", line=2, start=1), suggest(bob, "b", line=3, start=2)
    same = suggest(bob, "four", line=4)
    with events():
        sent = {"comments": [first, second]}
        api(alice).post(apply_url(pull), **sent).fails(409, "suggestions_overlap")
        api(alice).post(apply_url(pull, same)).fails(409, "nothing_to_commit")
        for bad in ([], [0], ["1"], [1] * 51, None):
            api(alice).post(apply_url(pull), comments=bad).fails(422, "validation_failed")


def test_lines_of_the_old_side_and_other_encodings_are_refused(
    api, make, clone, suggest, pull, alice, bob
):
    base = clone.sha("main")
    clone.push_commit("lines", {"README": "Changed.\n"})
    old = suggest(bob, "A place", line=1, path=b"README", side="old", commit_sha=base)
    api(alice).post(apply_url(pull, old)).fails(422, "not_a_suggestion")
    blob = clone.store("blob", b"caf\xe9\n")
    clone.trees[clone.head("lines")] = {**clone.tree(clone.head("lines")), "latin": blob}
    clone.push_commit("lines", {"more": "1\n"})
    number = suggest(bob, "cafe", line=1, path=b"latin")
    detail = api(alice).post(apply_url(pull, number)).fails(422, "not_a_suggestion")
    assert "not UTF-8" in detail


def test_a_deleted_comment_and_one_that_is_no_comment_on_lines_are_not_there(
    api, make, pull, suggest, alice, bob
):
    number = suggest(bob, "ONE", line=1)
    api(bob).delete(f"{pull.repo.api_path}/threads/{pull.number}/replies/{number}").gives(204)
    api(alice).post(apply_url(pull, number)).fails(422, "not_a_suggestion")
    plain = make.reply(pull.thread, by=bob, body=block("ONE")).number
    api(alice).post(apply_url(pull, plain)).fails(404, "not_found")


def test_only_people_who_may_push_to_the_source_apply_it(
    api, pull, suggest, clone, alice, bob, carol, events
):
    number = suggest(carol, "ONE", line=1)
    with events():
        api(carol).post(apply_url(pull, number)).fails(403, "role_required")
        api(None).post(apply_url(pull, number)).fails(401, "not_authenticated")
    create_protection(access=access_of(alice, pull.repo), branch="lines")
    api(bob).post(apply_url(pull, number)).fails(409, "branch_protected")
    api(alice).put(f"{paths.pull(pull)}/status", status="closed").gives()
    api(bob).post(apply_url(pull, number)).fails(409, "pull_closed")


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_each_is_made_once(api, pull, clone, suggest, alice, bob):
    first, second = suggest(bob, "ONE", line=1), suggest(bob, "FOUR", line=4)
    outcome = at_once(
        lambda: api(alice).post(apply_url(pull, first)),
        lambda: api(bob).post(apply_url(pull, second)),
    )
    assert outcome[201, None] >= 1
    for number in (first, second):
        api(alice).post(apply_url(pull, number))
    assert song(clone) == "ONE\ntwo\nthree\nFOUR"
    assert clone.server("rev-list", "--count", f"{pull.head_sha}..lines") == "2"


@pytest.mark.slow
def test_wherever_the_process_dies_a_repeated_request_finds_its_commit(
    api, pull, clone, suggest, alice, bob
):
    for number in count(1):
        lines = song(clone).split("\n")
        comment = suggest(bob, f"line {number}", line=1)
        before, key = pull.repo.git.ref("refs/heads/lines"), f"key-{number}"
        with dying_at(number) as death:
            api(alice).post_once(key, apply_url(pull, comment))
        KeyedRequest.objects.update(leased_until=timezone.now())
        answer = api(alice).post_once(key, apply_url(pull, comment))
        made = answer.gives(201)["commit_sha"]
        assert pull.repo.git.ref("refs/heads/lines") == made == pull.repo.branch_sha("lines")
        gained = clone.server("rev-list", "--count", f"{before}..lines")
        assert gained == "1", f"it died at statement {number}"
        assert song(clone).split("\n") == [f"line {number}", *lines[1:]]
        url = f"{pull.repo.api_path}/threads/{pull.number}/replies/{comment}"
        assert api(alice).get(url).gives()["status"] == "resolved"
        assert Event.objects.filter(kind="pull-pushed").count() == number
        assert Event.objects.filter(kind="reply-updated").count() == number
        reconcile(repo=pull.repo)
        PushJournal.objects.all().delete()
        if not death.came:
            break
    assert number > 30


# The text of a suggestion, and the lines of a file


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (block("a", "b"), ("a", "b")),
        (block(), ()),
        (block(""), ("",)),
        ("~~~~suggestion\na\n```\n~~~~", ("a", "```")),
        ("```suggestion:-0+0\na\n```", None),
        ("```suggestion\r\na\r\n```", ("a",)),
        ("```suggestion\nno end", ("no end",)),
        ("    ```suggestion\n    a\n    ```", None),
        ("```python\na\n```", None),
        ("", None),
    ],
)
def test_a_fenced_block_is_a_suggestion(body, lines):
    assert suggestion_in(body) == lines


@pytest.mark.parametrize(
    ("content", "start", "end", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, 2, ("B",), b"a\nB\nc\n"),
        (b"a\r\nb\r\n", 2, 2, ("B", "C"), b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb", 2, 2, ("B", "C"), b"a\r\nB\r\nC"),
        (b"a\nb", 2, 2, ("B",), b"a\nB"),
        (b"a", 1, 1, ("A", "B"), b"A\nB"),
        (b"a\nb\n", 1, 2, (), b""),
        (b"a\nb", 2, 2, (), b"a\n"),
        (b"a\r\nb\nc\n", 2, 2, ("B",), b"a\r\nB\nc\n"),
        (b"a\r\nb\n", 1, 1, ("A",), b"A\r\nb\n"),
        (b"a\nb\r\nc\n", 2, 3, ("",), b"a\n\r\n"),
        (b"\xff\na\n", 2, 2, ("\xe4",), b"\xff\n\xc3\xa4\n"),
    ],
)
def test_line_ends_stay(content, start, end, lines, expected):
    assert edited(content, [Edit(Lines(b"f", start, end), lines)]) == expected


@given(st.lists(st.sampled_from(["", "a", "b\r"]), min_size=1, max_size=9), st.data())
def test_an_edit_changes_no_other_line(lines, data):
    content = "".join(f"{line}\n" for line in lines).encode()
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    new = tuple(data.draw(st.lists(st.sampled_from(["x", "y", ""]), max_size=4)))
    after = edited(content, [Edit(Lines(b"f", start, end), new)]).decode().split("\n")[:-1]
    assert after[: start - 1] == lines[: start - 1]
    assert after[len(after) - len(lines) + end :] == lines[end:]
    assert [line.removesuffix("\r") for line in after[start - 1 : start - 1 + len(new)]] == [*new]


def test_edits_overlap_if_they_share_a_line_of_a_file():
    def edit(start, end, path=b"f"):
        return Edit(Lines(path, start, end), ())

    assert overlap([edit(1, 2), edit(2, 3)])
    assert overlap([edit(5, 5), edit(1, 9)])
    assert not overlap([edit(1, 2), edit(3, 3), edit(2, 2, b"g")])
